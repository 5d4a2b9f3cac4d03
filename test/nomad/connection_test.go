package nomad

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	nomadapi "github.com/hashicorp/nomad/api"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/settings/httpclient"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/nomad"
	"github.com/hpad/hpad/test/internal/world"
	"github.com/hpad/hpad/test/nomad/nomadtest"
	"github.com/hpad/hpad/test/wait"
)

// TestTLS: an agent that asks for certificates, which are all replaced while hpad
// runs.
func TestTLS(t *testing.T) {
	t.Parallel()
	shown, own := nomadtest.NewCertificate(t), nomadtest.NewCertificate(t)
	shown.CopyTo(t, own)
	agent := nomadtest.Start(t, nomadtest.Options{TLS: shown})
	l := world.NewLoad(t)
	l.Queue("sealed", 20)
	agent.Run(t, nomadtest.Job{ID: "sealed", Count: 1})

	anonymous := &nomad.Config{Address: agent.URL, TLS: httpclient.TLS{CAFile: own.CAFile}}
	anonymous.SetDefaults()
	f, err := nomad.New("prod", anonymous, targets.Env{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	if _, err := f.Snapshot(t.Context(), []targets.Ref{{Fleet: "prod", Name: "sealed/app"}}); err == nil || !strings.Contains(err.Error(), "certificate required") {
		t.Errorf("Snapshot() without a certificate = %v, want that one is required", err)
	}

	w := world.New(t, fleet(agent.URL, fmt.Sprintf("[fleets.prod.tls]\nca_file = %q\ncert_file = %q\nkey_file = %q\n", own.CAFile, own.CertFile, own.KeyFile))+
		l.Source()+queued("sealed", 1, 5))
	agent.AwaitRunning(t, "sealed", 2, patience)
	agent.Kill()
	shown.Renew(t)
	agent.Restart()
	w.Await("sealed", policy.AbleToScale, "FailedGetScale", "certificate signed by unknown authority")
	l.Queue("sealed", 40)
	w.Passes("sealed", 2)
	if count := agent.Count(t, "sealed"); count != 2 {
		t.Errorf("count %d while hpad has old certificates, want 2", count)
	}
	shown.CopyTo(t, own)
	agent.AwaitRunning(t, "sealed", 4, patience)
}

// TestRegions: one fleet scales jobs of two regions that know each other, with the
// cpu of both.
func TestRegions(t *testing.T) {
	t.Parallel()
	eu := nomadtest.Start(t, nomadtest.Options{Region: "eu"})
	us := nomadtest.Start(t, nomadtest.Options{Region: "us"})
	if _, err := eu.Client.Agent().Join(us.Serf); err != nil {
		t.Fatal(err)
	}
	wait.For(t, patience, "federation", func() (string, bool) {
		here, err := eu.Client.Regions().List()
		return fmt.Sprintf("%q, %v", here, err), len(here) == 2
	})
	l := world.NewLoad(t)
	run := func(agent *nomadtest.Agent, region, id string) {
		l.Queue(id, 30)
		agent.Run(t, nomadtest.Job{ID: id, Count: 1, Script: "while :; do sleep 1; done", Alter: func(job *nomadapi.Job) { job.Region = &region }})
		agent.AwaitRunning(t, id, 1, patience)
	}
	run(eu, "eu", "near")
	run(us, "us", "far")
	idle := `
[[autoscalers.far.metrics]]
type                = "Resource"
resource            = "cpu"
average_utilization = 1000
`
	far := strings.Replace(queued("far", 1, 5), `group = "app"`, `group = "app", region = "us"`, 1)
	w := world.New(t, fleet(eu.URL, "")+l.Source()+queued("near", 1, 5)+far+idle)
	us.AwaitRunning(t, "far", 3, patience)
	eu.AwaitRunning(t, "near", 3, patience)
	wait.For(t, patience, "samples of the other region's cpu", func() (string, bool) {
		metrics := w.View("far").Status.Metrics
		return fmt.Sprintf("the metrics are %+v", metrics), len(metrics) == 2 && metrics[1].AverageUtilization != nil
	})
	if got := w.View("far").Reference; got != "prod/us/default/far/app" {
		t.Errorf("reference %q", got)
	}

	// Without its servers the other region is not there; this one goes on.
	us.Kill()
	w.Await("far", policy.AbleToScale, "FailedGetScale", "us")
	l.Queue("near", 40)
	eu.AwaitRunning(t, "near", 4, patience)
	us.Restart()
	l.Queue("far", 50)
	us.AwaitRunning(t, "far", 5, patience)
}

// TestLeader: the leader of three servers dies, and hpad goes on under the next
// one; without a majority it holds, although the queue is empty, and says so.
func TestLeader(t *testing.T) {
	t.Parallel()
	cluster := nomadtest.StartCluster(t, 3)
	l := world.NewLoad(t)
	l.Queue("steady", 30)
	cluster.Run(t, nomadtest.Job{ID: "steady", Count: 1})
	w := world.New(t, fleet(cluster.URL, "")+l.Source()+queued("steady", 1, 5))
	cluster.AwaitRunning(t, "steady", 3, patience)

	first := cluster.Leader()
	first.Kill()
	second := cluster.Leader()
	if second == first {
		t.Fatal("the leader is still the one that was killed")
	}
	l.Queue("steady", 40)
	cluster.AwaitRunning(t, "steady", 4, patience)

	second.Kill()
	l.Queue("steady", 0)
	w.Await("steady", policy.AbleToScale, "FailedGetScale", "")
	w.Passes("steady", 4) // more than the window of 2s
	if count := cluster.CountAnywhere(t, "steady"); count != 4 {
		t.Errorf("count %d without a leader, want 4", count)
	}
	l.Queue("steady", 50)
	l.AwaitQueue(t, "steady")
	w.Passes("steady", 2) // the second began with the new length: none knows the empty queue when a leader is there
	first.Restart()
	cluster.AwaitRunning(t, "steady", 5, patience)
	for _, event := range cluster.Scalings(t, "steady") {
		if event.Count != nil && *event.Count < event.PreviousCount {
			t.Errorf("it shrank from %d to %d: %s", event.PreviousCount, *event.Count, event.Message)
		}
	}
	second.Restart()
}

// TestOutage: a Nomad that responds to nothing for many rounds, and then is not there
// for more, leaves no goroutine and no connection behind, in the fleet and in the
// daemon over it. The test runs alone.
func TestOutage(t *testing.T) {
	agent := nomadtest.Start(t, nomadtest.Options{})
	refs := make([]targets.Ref, 20)
	var text strings.Builder
	for n := range refs {
		id := fmt.Sprintf("outage-%02d", n)
		agent.Run(t, nomadtest.Job{ID: id, Count: 1, Script: "sleep 600"})
		refs[n] = targets.Ref{Fleet: "prod", Name: id + "/app"}
		fmt.Fprintf(&text, `
[autoscalers.%[1]s]
target       = { fleet = "prod", job = %[1]q, group = "app" }
max_replicas = 2
`, id)
	}
	w := world.New(t, fleet(agent.URL, "")+text.String())
	c := &nomad.Config{Address: agent.URL, Timeout: 200 * time.Millisecond, ResourceInterval: time.Second}
	c.SetDefaults()
	f, err := nomad.New("prod", c, targets.Env{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	round := func() error {
		_, err := f.Snapshot(t.Context(), refs)
		_, sampling := f.Samples(t.Context(), refs)
		if err == nil {
			err = sampling
		}
		return err
	}
	wait.For(t, patience, "reading of all", func() (string, bool) {
		err := round()
		return fmt.Sprint(err), err == nil
	})
	for _, ref := range refs {
		name, _, _ := strings.Cut(ref.Name, "/")
		w.Await(name, policy.ScalingActive, "ValidMetricFound", "")
	}
	goroutines, sockets := runtime.NumGoroutine(), countSockets(t)
	const rounds = 60
	outage := func(what string, n int) {
		t.Helper()
		for range n {
			if err := round(); err == nil {
				t.Fatalf("a round succeeds although nomad is %s", what)
			}
		}
		if now := runtime.NumGoroutine(); now > goroutines+c.MaxConnections {
			t.Errorf("%d goroutines after %d rounds with nomad %s, %d before", now, n, what, goroutines)
		}
		if now := countSockets(t); now > sockets+c.MaxConnections {
			t.Errorf("%d sockets after %d rounds with nomad %s, %d before", now, n, what, sockets)
		}
	}
	agent.Freeze()
	outage("frozen", rounds)
	w.Await("outage-00", policy.AbleToScale, "FailedGetScale", "no answer within")
	agent.Thaw()
	agent.Kill()
	outage("killed", 10*rounds)
	w.Await("outage-00", policy.AbleToScale, "FailedGetScale", "connection refused")
	w.Passes("outage-00", 5)
	wait.For(t, patience, "goroutines and sockets as before", func() (string, bool) {
		now, open := runtime.NumGoroutine(), countSockets(t)
		return fmt.Sprintf("there are %d goroutines and %d sockets, %d and %d before", now, open, goroutines, sockets), now <= goroutines && open <= sockets
	})
	agent.Restart()
	wait.For(t, patience, "reading of all, again", func() (string, bool) {
		err := round()
		return fmt.Sprint(err), err == nil
	})
	w.Await("outage-00", policy.ScalingActive, "ValidMetricFound", "")
	if count := agent.Count(t, "outage-00"); count != 1 {
		t.Errorf("count %d after the outage, want 1", count)
	}
}

// countSockets returns how many sockets the process has open.
func countSockets(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, entry := range entries {
		if target, err := os.Readlink("/proc/self/fd/" + entry.Name()); err == nil && strings.HasPrefix(target, "socket:") {
			n++
		}
	}
	return n
}
