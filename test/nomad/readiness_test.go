package nomad

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	nomadapi "github.com/hashicorp/nomad/api"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/nomad"
	"github.com/hpad/hpad/targets/targettest"
	"github.com/hpad/hpad/test/internal/world"
	"github.com/hpad/hpad/test/nomad/nomadtest"
	"github.com/hpad/hpad/test/wait"
)

// healthVariable is an environment variable that makes the test binary run as a health endpoint in
// a task. Its value is a directory.
const healthVariable = "HPAD_NOMAD_TEST_HEALTH"

// serveHealth returns status 200 on the allocation's port, or 503 if the directory contains a file
// named "sick-" followed by the allocation's index.
func serveHealth(dir string) {
	sick := filepath.Join(dir, "sick-"+os.Getenv("NOMAD_ALLOC_INDEX"))
	err := http.ListenAndServe(net.JoinHostPort("127.0.0.1", os.Getenv("NOMAD_PORT_http")), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if _, err := os.Stat(sick); err == nil {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// checks tests readiness = "checks": an allocation must be ready while its service check passes.
func checks(t *testing.T, agent *nomadtest.Agent, l *world.Load) {
	dir := t.TempDir()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	l.Queue("checked", 20)
	agent.Run(t, nomadtest.Job{ID: "checked", Count: 2, Memory: 500, Script: "exec " + program, Alter: func(job *nomadapi.Job) {
		group := job.TaskGroups[0]
		group.Networks = []*nomadapi.NetworkResource{{DynamicPorts: []nomadapi.Port{{Label: "http"}}}}
		group.Services = []*nomadapi.Service{{
			Name: "checked", Provider: "nomad", PortLabel: "http",
			Checks: []nomadapi.ServiceCheck{{Type: "http", Path: "/", Interval: time.Second, Timeout: time.Second}},
		}}
		group.Tasks[0].Env = map[string]string{healthVariable: dir}
	}})
	agent.AwaitRunning(t, "checked", 2, patience)
	w := world.New(t, fleet(agent.URL, `readiness = "checks"`)+l.Source()+queued("checked", 1, 5))
	ready := func(n, unready int32) {
		t.Helper()
		wait.For(t, patience, fmt.Sprintf("%d ready and %d unready allocations", n, unready), func() (string, bool) {
			instances := w.View("checked").Instances
			return fmt.Sprintf("%+v", instances), instances.Ready == n && instances.Unready == unready
		})
	}
	ready(2, 0)
	sick := filepath.Join(dir, "sick-1")
	if err := os.WriteFile(sick, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	ready(1, 1)
	if err := os.Remove(sick); err != nil {
		t.Fatal(err)
	}
	ready(2, 0)
	l.Queue("checked", 30)
	agent.AwaitRunning(t, "checked", 3, patience)
	ready(3, 0)
}

// readiness checks that hpad keeps the readiness of allocations although Nomad discards their
// health when a count changes. The readiness must survive a restart of hpad, unless the store is
// empty.
func readiness(t *testing.T, agent *nomadtest.Agent, _ *world.Load) {
	run := func(healthy time.Duration) {
		agent.Run(t, nomadtest.Job{ID: "sticky", Count: 2, Deployed: true, Alter: func(job *nomadapi.Job) {
			update := job.TaskGroups[0].Update
			deadline, progress := healthy+time.Hour, healthy+2*time.Hour
			update.MinHealthyTime, update.HealthyDeadline, update.ProgressDeadline = &healthy, &deadline, &progress
		}})
	}
	open := func(store targets.Store) *nomad.Fleet {
		c := &nomad.Config{Address: agent.URL, Timeout: patience}
		c.SetDefaults()
		f, err := nomad.New("prod", c, targets.Env{Store: store})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Close() })
		return f
	}
	ref := targets.Ref{Fleet: "prod", Name: "sticky/app"}
	ready := func(f *nomad.Fleet) map[string]time.Time {
		t.Helper()
		readings, err := f.Snapshot(t.Context(), []targets.Ref{ref})
		if err == nil {
			err = readings[ref].Err
		}
		if err != nil {
			t.Fatal(err)
		}
		since := map[string]time.Time{}
		for _, instance := range readings[ref].Instances {
			if instance.Readiness == policy.ReadinessTrue {
				since[instance.ID] = instance.ReadinessChanged.UTC().Truncate(time.Millisecond)
			}
		}
		return since
	}
	run(time.Second)
	store := &targettest.Store{}
	before := open(store)
	var first map[string]time.Time
	wait.For(t, patience, "two ready allocations", func() (string, bool) {
		first = ready(before)
		return fmt.Sprintf("%v", first), len(first) == 2
	})
	run(time.Hour)
	wait.For(t, patience, "allocations without health", func() (string, bool) {
		allocs, _, err := agent.Client.Jobs().Allocations("sticky", false, nil)
		if err != nil {
			return err.Error(), false
		}
		unknown := 0
		for _, alloc := range allocs {
			if _, existed := first[alloc.ID]; existed && (alloc.DeploymentStatus == nil || alloc.DeploymentStatus.Healthy == nil) {
				unknown++
			}
		}
		return fmt.Sprintf("%d of %d", unknown, len(allocs)), unknown == 2
	})
	for what, f := range map[string]*nomad.Fleet{"the same fleet": before, "a new fleet": open(store)} {
		if diff := cmp.Diff(first, ready(f)); diff != "" {
			t.Errorf("ready allocations of %s (-want +got):\n%s", what, diff)
		}
	}
	if found := ready(open(nil)); len(found) != 0 {
		t.Errorf("got ready allocations %v with an empty store, want none", found)
	}
}
