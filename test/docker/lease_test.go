package docker

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/targets/compose"
	"github.com/hpad/hpad/test/docker/dockertest"
	"github.com/hpad/hpad/test/etcd/etcdtest"
	"github.com/hpad/hpad/test/internal/ports"
	"github.com/hpad/hpad/test/internal/program"
	"github.com/hpad/hpad/test/internal/world"
	"github.com/hpad/hpad/test/wait"
)

// sharing is a cluster member that records the changes that it requests from the engine.
type sharing struct {
	*program.Program
	name string

	mu      sync.Mutex
	changes []string
}

func newSharing(t *testing.T, s *site, store *etcdtest.Cluster, name, text string) *sharing {
	t.Helper()
	m := &sharing{name: name}
	gate := newGate(t, s.Engine)
	gate.before = func(r *http.Request) {
		if r.Method == http.MethodGet || r.Method == http.MethodHead {
			return
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		m.changes = append(m.changes, fmt.Sprint(time.Now().Format("05.000 "), r.Method, " ", r.URL.Path))
	}
	address := ports.Free(t)
	m.Program = program.Prepare(t, program.Options{
		Daemon:      fmt.Sprintf("listen = %q\nsync_period = \"1s\"\n", address),
		Environment: []string{"DOCKER_HOST=" + gate.host()},
		Config: fmt.Sprintf("[ha]\ncluster = \"shop\"\nmember = %q\naddress = \"http://%s\"\nttl = \"5s\"\netcd = { endpoints = [%q] }\n",
			name, address, store.Endpoints[0]) + text,
	})
	m.Launch()
	return m
}

// requested returns the changes that the member has requested so far.
func (m *sharing) requested() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.changes)
}

// TestLease checks that an owner that was suspended for longer than its lease does not make changes
// when it resumes: it must neither complete a removal nor restart a failed container.
func TestLease(t *testing.T) {
	t.Parallel()
	s := newSite(t, dockertest.Options{})
	store := etcdtest.Start(t, 1)
	p := s.Project(t, "leased", "services: { web: { image: worker:1, init: true, stop_grace_period: 1m, environment: { WORKER_STOP_AFTER: 12s } } }\n")
	p.Compose("up", "--detach", "--scale", "web=4")
	s.load.Queue("leased", 40)
	s.load.AwaitQueue(t, "leased")
	text := "[fleets.shop]\nkind = \"compose\"\ntimeout = \"20s\"\n" + s.load.Source() +
		world.Queued("leased", `{ fleet = "shop", project = "leased", service = "web" }`, 1, 5)
	both := []*sharing{newSharing(t, s, store, "one", text), newSharing(t, s, store, "two", text)}
	owner := func(of *sharing) string {
		found, err := api.Get[api.Cluster](t.Context(), of.Client, api.Path("cluster"), nil)
		if err != nil || len(found.Fleets) != 1 {
			return ""
		}
		return found.Fleets[0].Owner
	}
	wait.For(t, patience, "a stable owner", func() (string, bool) {
		found, err := api.Get[api.Cluster](t.Context(), both[0].Client, api.Path("cluster"), nil)
		return fmt.Sprintf("%+v, %v", found, err), err == nil && len(found.Members) == 2 && len(found.Fleets) == 1 &&
			found.Fleets[0].Owner != "" && found.Fleets[0].Owner == found.Fleets[0].Next
	})
	if owner(both[0]) == both[1].name {
		slices.Reverse(both)
	}
	old, next := both[0], both[1]

	// Make the owner wait for one container to stop, and for the restart delay of another
	// container.
	s.load.Queue("leased", 30)
	wait.For(t, patience, "a stop request", func() (string, bool) { return fmt.Sprint(old.requested()), len(old.requested()) > 0 })
	staying := slices.DeleteFunc(s.replicas(t, "leased", "web"), func(c container.Summary) bool {
		return strings.Contains(old.requested()[0], c.ID)
	})
	s.post(t, staying[0], "exit?code=1")
	old.Await("leased", compose.ContainersFailing, "ContainersExited", "exited with 1 (hpad restarts it after 10s)")
	old.Signal(syscall.SIGSTOP)
	before := old.requested()
	wait.For(t, patience, "next owner", func() (string, bool) { return owner(next), owner(next) == next.name })
	s.awaitReplicas(t, "leased", 3)
	wait.For(t, patience, "a restart by the next owner", func() (string, bool) {
		found := s.replicas(t, "leased", "web")
		return describe(found), len(found) == 3 && !slices.ContainsFunc(found, func(c container.Summary) bool { return c.State != "running" })
	})
	old.Signal(syscall.SIGCONT)
	for range 40 { // longer than the lease, unless the fleet moves back to its first owner
		time.Sleep(200 * time.Millisecond)
		got := old.requested()[len(before):]
		if strings.Contains(next.Said(), "fleet released") {
			break
		}
		if len(got) > 0 {
			t.Fatalf("the former owner requested %q, want no change", got)
		}
	}
	if got := next.requested(); len(got) == 0 {
		t.Errorf("the next owner requested no change; the former owner requested %q", before)
	}
}
