package contract

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/hpad/hpad/guard"
	"github.com/hpad/hpad/targets"
)

func samples[T TB](t *trial[T]) {
	f := t.open()
	sampler := t.sampler(f)
	wanted := append([]targets.Ref{t.Missing}, t.Refs...)
	running := map[targets.Ref]map[string]bool{}
	for i, ref := range t.Refs {
		running[ref] = ids(f.settle(ref, t.counts[i]))
	}
	var got map[targets.Ref]targets.Samples
	t.poll("samples of all instances", func() (string, bool) {
		var err error
		if got, err = sampler.Samples(t.Context(), wanted); err != nil {
			t.Fatalf("Samples() = %v", err)
		}
		complete := true
		for ref, instances := range running {
			complete = complete && len(got[ref].Instances) == len(instances)
		}
		return fmt.Sprintf("samples are %+v", got), complete
	})
	if unknown, ok := got[t.Missing]; ok {
		t.Errorf("Samples() of an unknown target = %+v, want no entry", unknown)
	}
	for ref, instances := range running {
		for _, sample := range got[ref].Instances {
			if !instances[sample.ID] {
				t.Errorf("%s: sample of %q, want only samples of %v", ref, sample.ID, instances)
			}
			t.checkSample(ref, sample)
		}
	}
}

func (t *trial[T]) sampler(f *fleet[T]) targets.Sampler {
	t.Helper()
	sampler, ok := f.Fleet.(targets.Sampler)
	if !ok {
		t.Fatalf("%T is not a Sampler", f.Fleet)
	}
	return sampler
}

// checkSample checks the properties that every sample must have.
func (t *trial[T]) checkSample(ref targets.Ref, sample targets.InstanceSample) {
	t.Helper()
	if sample.Window <= 0 || sample.At.IsZero() || sample.At.After(time.Now().Add(time.Minute)) {
		t.Errorf("%s: sample of %q at %v over %v, want a past time and a span", ref, sample.ID, sample.At, sample.Window)
	}
	if len(sample.Tasks) == 0 {
		t.Errorf("%s: sample of %q has no tasks", ref, sample.ID)
	}
	for _, task := range sample.Tasks {
		for _, amount := range task.Usage {
			highest := int64(1) << 53
			if amount.Resource == "cpu" {
				// Allow for a small error, because two clocks are never read at the same instant.
				highest = int64(runtime.NumCPU()) * 1500
			}
			if amount.Milli < 0 || amount.Milli > highest {
				t.Errorf("%s: %q uses %d thousandths of %s in task %q, want 0 to %d", ref, sample.ID, amount.Milli, amount.Resource, task.Task, highest)
			}
		}
	}
}

func samplesOnDemand[T TB](t *trial[T]) {
	f := t.open()
	f.settle(t.Refs[0], 1)
	if t.Sampling() {
		t.Error("the fleet samples before the first call of Samples")
	}
	if _, err := t.sampler(f).Samples(t.Context(), t.Refs); err != nil {
		t.Fatalf("Samples() = %v", err)
	}
	t.poll("sampling", func() (string, bool) { return "the fleet does not sample", t.Sampling() })
	t.poll("end of sampling", func() (string, bool) { return "the fleet still samples without calls of Samples", !t.Sampling() })
}

func concurrentUse[T TB](t *trial[T]) {
	f := t.open()
	f.settle(t.Refs[0], 1)
	var group guard.Tasks
	for worker := range 4 {
		group.Go(func() {
			for round := range 10 {
				if err := use(t.Context(), f.Fleet, t.Refs, int32((worker+round)%4)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	f.scale(t.Refs[0], 2)
	f.settle(t.Refs[0], 2)
	f.checkOthers()
}

// use calls each method of a fleet once, and scales the first target to n.
func use(ctx context.Context, f targets.Fleet, refs []targets.Ref, n int32) error {
	readings, err := f.Snapshot(ctx, refs)
	if err != nil {
		return fmt.Errorf("concurrent Snapshot() = %w", err)
	}
	if err := f.SetReplicas(ctx, refs[0], n, readings[refs[0]].Version, "contract suite"); err != nil && !errors.Is(err, targets.ErrConflict) {
		return fmt.Errorf("concurrent SetReplicas() = %w", err)
	}
	if sampler, ok := f.(targets.Sampler); ok {
		if _, err := sampler.Samples(ctx, refs); err != nil {
			return fmt.Errorf("concurrent Samples() = %w", err)
		}
	}
	return nil
}
