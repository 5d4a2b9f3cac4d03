package process

import (
	"fmt"
	"testing"
	"time"

	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/targettest"
)

const (
	benchServices = 10
	benchReplicas = 20
	benchCount    = benchServices * benchReplicas
)

// startSleepers starts a fleet whose processes are idle, and waits until they run.
func startSleepers(b *testing.B) (*Fleet, []targets.Ref) {
	b.Helper()
	config := &Config{Services: map[string]Service{}, ResourceInterval: time.Hour}
	var refs []targets.Ref
	for n := range benchServices {
		name := fmt.Sprintf("sleep-%d", n)
		config.Services[name] = Service{Command: []string{"sleep", "600"}, Replicas: new(int32(benchReplicas))}
		refs = append(refs, ref(name))
	}
	config.SetDefaults()
	f := New("local", config, targets.Env{})
	if err := f.Start(b.Context()); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = f.Close() })
	running := func() (pids int) {
		for _, service := range f.services {
			for _, i := range service.instances() {
				if i.leader() != 0 {
					pids++
				}
			}
		}
		return pids
	}
	for deadline := time.Now().Add(patience); running() < benchCount; {
		if time.Now().After(deadline) {
			b.Fatalf("only %d processes run", running())
		}
		<-time.After(time.Millisecond)
	}
	return f, refs
}

func BenchmarkSample(b *testing.B) {
	f, _ := startSleepers(b)
	var due []*instance
	for _, s := range f.services {
		due = append(due, s.instances()...)
	}
	targettest.Rounds(b, benchCount, func() {
		if err := sample(f.sampler, due); err != nil {
			b.Error(err)
		}
	})
}

func BenchmarkSnapshot(b *testing.B) {
	f, refs := startSleepers(b)
	targettest.Rounds(b, benchCount, func() {
		readings, err := f.Snapshot(b.Context(), refs)
		if err != nil || len(readings[refs[0]].Instances) != benchReplicas {
			b.Fatalf("Snapshot() = %v, %+v", err, readings[refs[0]])
		}
	})
}
