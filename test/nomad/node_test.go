package nomad

import (
	"fmt"
	"testing"
	"time"

	nomadapi "github.com/hashicorp/nomad/api"

	"github.com/hpad/hpad/test/internal/world"
	"github.com/hpad/hpad/test/nomad/nomadtest"
	"github.com/hpad/hpad/test/wait"
)

// TestNodeIsLost: a client that does not respond makes the samples of its allocations
// missing and nothing else. Once Nomad calls the node disconnected, what it puts in
// their place is counted, and they are not; when the client is back all is as before.
func TestNodeIsLost(t *testing.T) {
	t.Parallel()
	cluster := nomadtest.StartCluster(t, 1)
	second := cluster.AddClient(t, nil)
	l := world.NewLoad(t)
	l.Queue("spread", 20)
	yes, hour, keep := true, time.Hour, nomadapi.ReconcileOptionKeepOriginal
	cluster.Run(t, nomadtest.Job{ID: "spread", Count: 2, Script: "while :; do sleep 1; done", Alter: func(job *nomadapi.Job) {
		group := job.TaskGroups[0]
		group.AddSpread(nomadapi.NewSpread("${node.unique.name}", 100, nil))
		group.Disconnect = &nomadapi.DisconnectStrategy{LostAfter: &hour, Replace: &yes, Reconcile: &keep}
	}})
	cluster.AwaitRunning(t, "spread", 2, patience)
	w := world.New(t, fleet(cluster.URL, "")+l.Source()+queued("spread", 1, 5)+`
[[autoscalers.spread.metrics]]
type                = "Resource"
resource            = "cpu"
average_utilization = 1000
`)
	sampled := func(what string) {
		t.Helper()
		wait.For(t, patience, what, func() (string, bool) {
			view := w.View("spread")
			metrics := view.Status.Metrics
			return fmt.Sprintf("the metrics are %+v of %+v", metrics, view.Instances), len(metrics) == 2 && metrics[1].AverageUtilization != nil
		})
	}
	instances := func(what string, ready, leaving int) {
		t.Helper()
		wait.For(t, patience, what, func() (string, bool) {
			view := w.View("spread")
			seen := view.Instances
			return fmt.Sprintf("there are %+v, %d replicas", seen, view.Status.CurrentReplicas), seen.Ready == ready && seen.Deleting == leaving && seen.Unready+seen.Pending+seen.Failed == 0
		})
	}
	sampled("cpu of both")
	second.Freeze()
	w.Passes("spread", 10) // samples of before are too old by then
	sampled("cpu of the one whose client answers")
	instances("replacement that counts beside the one that does not answer", 2, 1)
	sampled("cpu after the replacement")
	second.Thaw()
	instances("two allocations, as before", 2, 0)
	cluster.AwaitRunning(t, "spread", 2, patience)
	if scalings := cluster.Scalings(t, "spread"); len(scalings) != 0 {
		t.Errorf("scaled %+v, want that the count stays", scalings)
	}
}
