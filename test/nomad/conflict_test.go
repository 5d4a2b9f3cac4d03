package nomad

import (
	"context"
	"sync"
	"testing"

	nomadapi "github.com/hashicorp/nomad/api"

	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/test/internal/world"
	"github.com/hpad/hpad/test/nomad/nomadtest"
)

// meddled is a fleet whose job somebody changes just before each of the first
// writes.
type meddled struct {
	targets.Fleet
	meddle func()
}

func (m *meddled) SetReplicas(ctx context.Context, ref targets.Ref, n int32, version, reason string) error {
	m.meddle()
	return m.Fleet.SetReplicas(ctx, ref, n, version, reason)
}

// compareAndSet: a job that changes between the read and the write is read again,
// and what somebody else changed is there after hpad's write.
func compareAndSet(t *testing.T, agent *nomadtest.Agent, l *world.Load) {
	l.Queue("raced", 30)
	agent.Run(t, nomadtest.Job{ID: "raced", Count: 1})
	agent.AwaitRunning(t, "raced", 1, patience)
	once := sync.OnceFunc(func() {
		job := nomadtest.Job{ID: "raced", Count: 1, Alter: func(job *nomadapi.Job) { job.Meta = map[string]string{"owner": "somebody"} }}.Build()
		if _, _, err := agent.Client.Jobs().Register(job, nil); err != nil {
			t.Errorf("change the job: %v", err)
		}
	})
	var mu sync.Mutex
	writes := 0
	meddle := func() {
		mu.Lock()
		defer mu.Unlock()
		writes++
		once()
	}
	w := world.NewWrapped(t, fleet(agent.URL, "")+l.Source()+queued("raced", 1, 5), func(_ string, fleet targets.Fleet) targets.Fleet {
		return &meddled{Fleet: fleet, meddle: meddle}
	})
	agent.AwaitRunning(t, "raced", 3, patience)
	w.Passes("raced", 1)
	mu.Lock()
	defer mu.Unlock()
	if writes < 2 {
		t.Errorf("%d writes, want one that was lost and another", writes)
	}
	job, _, err := agent.Client.Jobs().Info("raced", nil)
	if err != nil {
		t.Fatal(err)
	}
	if job.Meta["owner"] != "somebody" {
		t.Errorf("meta %v, want the change of somebody else kept", job.Meta)
	}
}
