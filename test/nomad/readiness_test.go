package nomad

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	nomadapi "github.com/hashicorp/nomad/api"

	"github.com/hpad/hpad/test/internal/wait"
	"github.com/hpad/hpad/test/internal/world"
	"github.com/hpad/hpad/test/nomad/nomadtest"
)

// healthVariable makes the test's own program a task that tells its health. It
// names a directory.
const healthVariable = "HPAD_NOMAD_TEST_HEALTH"

// serveHealth answers on the allocation's port until it is ended: well, unless the
// directory has a file named "sick-" and the number of the allocation.
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

// checks: with readiness = "checks" an allocation whose service check fails is not
// ready, and is again once it passes.
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
	ready := func(n, unready int) {
		t.Helper()
		wait.For(t, patience, fmt.Sprintf("%d ready and %d unready allocations", n, unready), func() (string, bool) {
			instances := w.View("checked").Instances
			return fmt.Sprintf("there are %+v", instances), instances.Ready == n && instances.Unready == unready
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
