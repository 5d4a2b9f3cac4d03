package daemon

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/sources"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/targettest"
)

// TestInstancesOf checks that reading instances does not affect the passes.
func TestInstancesOf(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		half := int32(50)
		w.fed("web", 3, 3, func(a *config.Autoscaler) {
			a.Spec.Metrics = append(a.Spec.Metrics, policy.MetricSpec{
				Type: policy.ResourceMetric, Name: "cpu", Target: policy.MetricTarget{Type: policy.UtilizationTarget, AverageUtilization: &half},
			})
			a.Inputs = append(a.Inputs, config.Input{})
		})
		w.fleet().Change("web", func(target *targettest.MemoryTarget) {
			cpu := func(milli int64) []policy.Amount { return []policy.Amount{{Resource: "cpu", Milli: milli}} }
			target.Tasks = []policy.Task{{Name: "app", Requests: cpu(200)}}
			target.Usage = func(time.Time, policy.Instance, int) []policy.TaskUsage {
				return []policy.TaskUsage{{Task: "app", Usage: cpu(100)}}
			}
		})
		w.start()
		w.advance(20 * time.Second)
		before := w.view("web").Evaluation
		list, err := w.daemon.InstancesOf(t.Context(), "web")
		if err != nil || list.Error != "" || len(list.Instances) != 3 || !list.Time.Equal(time.Now()) {
			t.Fatalf("InstancesOf = %+v, %v", list, err)
		}
		for _, one := range list.Instances {
			if one.Phase != "Running" || one.Readiness != "True" || one.Started.IsZero() || len(one.Metrics) != 1 {
				t.Errorf("instance = %+v", one)
				continue
			}
			if m := one.Metrics[0]; m.Name != "cpu" || m.Group != "ready" || *m.ValueMilli != 100 || *m.Utilization != 50 {
				t.Errorf("measured values = %+v", m)
			}
		}
		if after := w.view("web").Evaluation; after.Last != before.Last {
			t.Errorf("unexpected pass: %+v", after)
		}

		remove := w.fleet().Inject(targettest.Fault{Call: targettest.SamplesCall, Err: errors.New("no cgroup")})
		if list, err = w.daemon.InstancesOf(t.Context(), "web"); err != nil || len(list.Instances) != 3 || len(list.Failed) != 1 || !strings.Contains(list.Failed[0].Error, "no cgroup") {
			t.Errorf("InstancesOf without samples = %+v, %v", list, err)
		}
		remove()
		remove = w.fleet().Inject(targettest.Fault{Call: targettest.SnapshotCall, Err: targets.ErrForbidden})
		if list, err = w.daemon.InstancesOf(t.Context(), "web"); err != nil || list.Error == "" || len(list.Instances) > 0 {
			t.Errorf("InstancesOf with an unreadable target = %+v, %v", list, err)
		}
		remove()
		w.source().set("web", func(ctx context.Context, _ time.Time) (sources.Vector, error) {
			<-ctx.Done()
			return sources.Vector{}, ctx.Err()
		})
		begun := time.Now()
		if list, err = w.daemon.InstancesOf(t.Context(), "web"); err != nil || len(list.Instances) != 3 || time.Since(begun) > 10*time.Second {
			t.Errorf("with a hanging query: %+v, %v after %v; want no measured instance", list, err, time.Since(begun))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err = w.daemon.InstancesOf(ctx, "web"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error with a shorter timeout = %v", err)
		}
		if _, err := w.daemon.InstancesOf(t.Context(), "other"); !errors.Is(err, api.ErrUnknown) {
			t.Errorf("error for an unknown autoscaler = %v", err)
		}
		w.advance(time.Minute)
		w.stop()
	})
}
