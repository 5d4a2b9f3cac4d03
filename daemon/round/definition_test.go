package round

import (
	"testing"
	"time"

	"github.com/hpad/hpad/daemon/adapters"
	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/sources"
	"github.com/hpad/hpad/targets"
)

// TestFingerprintIsStable checks that the fingerprint of an unchanged configuration is the same in
// every version of hpad. Otherwise an upgrade would evaluate all autoscalers between ticks.
func TestFingerprintIsStable(t *testing.T) {
	goal, window, low := int64(30_000), int32(300), int32(2)
	whole := config.Autoscaler{
		Name: "checkout", Target: targets.Ref{Fleet: "prod", Name: "checkout/api"}, SyncPeriod: 15 * time.Second,
		Spec: policy.Default(policy.Spec{
			MinReplicas: &low, MaxReplicas: 40,
			Metrics: []policy.MetricSpec{{
				Type: policy.ExternalMetric, Name: "queue", Target: policy.MetricTarget{Type: policy.AverageValueTarget, AverageValueMilli: &goal},
			}},
			Behavior: &policy.Behavior{ScaleDown: &policy.ScalingRules{StabilizationWindowSeconds: &window}},
		}),
		Inputs: []config.Input{{Source: "prom", Query: "sum(queue)", Select: sources.Labels{{Name: "queue", Value: "checkout"}}}},
	}
	for _, test := range []struct {
		name string
		config.Autoscaler
		want string
	}{
		{"nothing", config.Autoscaler{}, "Z--5EioFHQC-zaM4"},
		{"metric and behavior", whole, "Mz5Xed0LFeyol_ap"},
	} {
		got := define(&test.Autoscaler, config.DefaultDaemon(), &adapters.Fleet{}, nil).Fingerprint
		if got != test.want {
			t.Errorf("fingerprint of an autoscaler with %s = %q, want %q", test.name, got, test.want)
		}
	}
}

// TestFormulaIsCompiledOnce checks that the passes of a definition share one compiled formula.
func TestFormulaIsCompiledOnce(t *testing.T) {
	a := config.Autoscaler{Spec: policy.Spec{Metrics: []policy.MetricSpec{
		{Type: policy.ExternalMetric, Name: "queue"}, {Type: policy.ExternalMetric, Name: "formula", Formula: "2 * queue"},
	}}}
	d := define(&a, config.DefaultDaemon(), &adapters.Fleet{}, nil)
	compiled := d.metrics[1].Compiled
	if compiled == nil || a.Spec.Metrics[1].Compiled != nil {
		t.Fatalf("compiled: %v in the definition, %v in the configuration", compiled, a.Spec.Metrics[1].Compiled)
	}
	if now := d.At(time.Now()).metrics[1].Compiled; now != compiled {
		t.Errorf("compiled again: %p, want %p", now, compiled)
	}
}

// TestInitialization checks that the initialization settings of an autoscaler override those of the
// daemon, unless compat is strict.
func TestInitialization(t *testing.T) {
	for strict, want := range map[bool]time.Duration{false: time.Hour, true: 5 * time.Minute} {
		conf := config.DefaultDaemon()
		if strict {
			conf.Compat = config.CompatStrict
		}
		d := define(&config.Autoscaler{Initialization: new(time.Hour)}, conf, &adapters.Fleet{}, nil)
		if got := d.Settings.CPUInitializationPeriod; got != want {
			t.Errorf("period = %s with strict = %t, want %s", got, strict, want)
		}
	}
}
