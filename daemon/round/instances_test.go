package round_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/daemontest"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/sources"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/targettest"
)

// TestInstancesOf checks that reading instances does not affect the passes.
func TestInstancesOf(t *testing.T) {
	daemontest.Run(t, func(t *testing.T, w *daemontest.World) {
		half := int32(50)
		w.AddWithValue("web", 3, 3, func(a *config.Autoscaler) {
			a.Spec.Metrics = append(a.Spec.Metrics, policy.MetricSpec{
				Type: policy.ResourceMetric, Name: "cpu", Target: policy.MetricTarget{Type: policy.UtilizationTarget, AverageUtilization: &half},
			})
			a.Inputs = append(a.Inputs, config.Input{})
		})
		w.Fleet().Change("web", func(target *targettest.MemoryTarget) {
			cpu := func(milli int64) []policy.Amount { return []policy.Amount{{Resource: "cpu", Milli: milli}} }
			target.Tasks = []policy.Task{{Name: "app", Requests: cpu(200)}}
			target.Usage = func(time.Time, policy.Instance, int) []policy.TaskUsage {
				return []policy.TaskUsage{{Task: "app", Usage: cpu(100)}}
			}
		})
		w.Start()
		w.Advance(20 * time.Second)
		before := w.View("web").Evaluation
		list, err := w.Daemon.InstancesOf(t.Context(), "web")
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
		if after := w.View("web").Evaluation; after.Last != before.Last {
			t.Errorf("unexpected pass: %+v", after)
		}

		remove := w.Fleet().Inject(targettest.Fault{Call: targettest.SamplesCall, Err: errors.New("no cgroup")})
		if list, err = w.Daemon.InstancesOf(t.Context(), "web"); err != nil || len(list.Instances) != 3 || len(list.Failed) != 1 || !strings.Contains(list.Failed[0].Error, "no cgroup") {
			t.Errorf("InstancesOf without samples = %+v, %v", list, err)
		}
		remove()
		remove = w.Fleet().Inject(targettest.Fault{Call: targettest.SnapshotCall, Err: targets.ErrForbidden})
		if list, err = w.Daemon.InstancesOf(t.Context(), "web"); err != nil || list.Error == "" || len(list.Instances) > 0 {
			t.Errorf("InstancesOf with an unreadable target = %+v, %v", list, err)
		}
		remove()
		w.Source().Set("web", func(ctx context.Context, _ time.Time) (sources.Vector, error) {
			<-ctx.Done()
			return sources.Vector{}, ctx.Err()
		})
		begun := time.Now()
		if list, err = w.Daemon.InstancesOf(t.Context(), "web"); err != nil || len(list.Instances) != 3 || time.Since(begun) > 10*time.Second {
			t.Errorf("with a hanging query: %+v, %v after %v; want no measured instance", list, err, time.Since(begun))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err = w.Daemon.InstancesOf(ctx, "web"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error with a shorter timeout = %v", err)
		}
		if _, err := w.Daemon.InstancesOf(t.Context(), "other"); !errors.Is(err, api.ErrUnknown) {
			t.Errorf("error for an unknown autoscaler = %v", err)
		}
		w.Advance(time.Minute)
		w.Stop()
	})
}
