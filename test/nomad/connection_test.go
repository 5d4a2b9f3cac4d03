package nomad

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/settings/httpclient"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/nomad"
	"github.com/hpad/hpad/test/internal/world"
	"github.com/hpad/hpad/test/nomad/nomadtest"
)

// TestTLS checks that hpad connects to an agent that requires client certificates, and that it
// reads replaced certificate files without a restart.
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
		t.Errorf("Snapshot() without a certificate = %v, want an error", err)
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
		t.Errorf("count with old certificates = %d, want 2", count)
	}
	shown.CopyTo(t, own)
	agent.AwaitRunning(t, "sealed", 4, patience)
}

// TestLeader checks that hpad continues after the leader of three servers has been killed. While
// there is no quorum, hpad must not scale, even if the queue is empty.
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
	l.Queue("steady", 40)
	cluster.AwaitRunning(t, "steady", 4, patience)

	second.Kill()
	l.Queue("steady", 0)
	w.Await("steady", policy.AbleToScale, "FailedGetScale", "")
	w.Passes("steady", 4) // more than the window of 2s
	if count := cluster.CountAnywhere(t, "steady"); count != 4 {
		t.Errorf("count without a leader = %d, want 4", count)
	}
	l.Queue("steady", 50)
	l.AwaitQueue(t, "steady")
	w.Passes("steady", 2) // so that hpad does not use the empty queue when a leader is elected
	first.Restart()
	cluster.AwaitRunning(t, "steady", 5, patience)
	for _, event := range cluster.Scalings(t, "steady") {
		if event.Count != nil && *event.Count < event.PreviousCount {
			t.Errorf("unexpected scale-down from %d to %d: %s", event.PreviousCount, *event.Count, event.Message)
		}
	}
	second.Restart()
}
