package metrics

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/notify"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/sources"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/drain"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// checkout returns an autoscaler with a value in every field.
func checkout() api.Autoscaler {
	return api.Autoscaler{
		Name: "checkout", Reference: "prod/checkout/api", Kind: "nomad", SyncPeriodSeconds: 15,
		Spec: policy.Spec{
			MinReplicas: new(int32(2)), MaxReplicas: 40,
			Metrics: []policy.MetricSpec{
				{Type: policy.ResourceMetric, Name: "cpu", Target: policy.MetricTarget{Type: policy.UtilizationTarget, AverageUtilization: new(int32(60))}},
				{Type: policy.ExternalMetric, Name: "queue", Target: policy.MetricTarget{Type: policy.AverageValueTarget, AverageValueMilli: new(int64(30_500))}},
				{Type: policy.ObjectMetric, Name: "rate", Target: policy.MetricTarget{Type: policy.ValueTarget, ValueMilli: new(int64(100_000))}},
			},
		},
		Status: policy.Status{
			CurrentReplicas: 4, DesiredReplicas: 6, LastScaleTime: now.Add(-time.Minute),
			Conditions: []policy.Condition{
				{Type: policy.AbleToScale, Status: policy.ConditionTrue},
				{Type: policy.ScalingActive, Status: policy.ConditionFalse, Reason: "ScalingDisabled"},
				{Type: policy.ScalingLimited, Status: policy.ConditionUnknown},
			},
		},
		Evaluation: api.Evaluation{
			Last: now, Reason: "SomeMetricsFailed", DurationSeconds: 0.25, Error: "source does not respond", Unevaluated: true,
			QuarantinedUntil: time.Now().Add(time.Hour),
		},
		Drains: []drain.Operation{
			{ID: "late", State: drain.Terminating, Deadline: time.Now().Add(-time.Minute)},
			{ID: "cleanup late", State: drain.Finishing, Deadline: time.Now().Add(-time.Minute)},
			{ID: "in time", State: drain.Draining, Deadline: time.Now().Add(time.Hour)},
			{ID: "canceled", State: drain.Undoing, Deadline: time.Now().Add(-time.Minute)},
			{ID: "ended", State: drain.Ended, Deadline: time.Now().Add(-time.Minute), Outcome: drain.Terminated},
		},
		Pauses: []policy.Pause{{Until: now.Add(time.Hour)}, {Until: now.Add(3 * time.Hour)}, {Until: now.Add(2 * time.Hour)}},
		Decision: &policy.Decision{
			CurrentReplicas: 4, DesiredReplicas: 6, Recommendation: new(int32(9)), PlatformMax: new(int32(50)), Hold: &policy.Hold{},
			Metrics: []policy.MetricResult{
				{Type: policy.ResourceMetric, Name: "cpu", TargetType: policy.UtilizationTarget, Current: policy.MetricStatus{AverageUtilization: new(int32(90))}, Proposal: 6},
				{Type: policy.ExternalMetric, Name: "queue", Error: "source does not respond"},
				{Type: policy.ObjectMetric, Name: "rate", TargetType: policy.ValueTarget, Current: policy.MetricStatus{ValueMilli: new(int64(50_000))}, Proposal: 2},
			},
		},
	}
}

// exercised returns metrics in which every series has a value.
func exercised(t *testing.T) (*Metrics, *Exposition) {
	t.Helper()
	reg := prometheus.NewPedanticRegistry()
	m := New(reg)
	view := checkout()
	m.Show(func() iter.Seq[api.Autoscaler] { return slices.Values([]api.Autoscaler{view}) })
	m.ShowDiscovered(func() []api.Discovered {
		return []api.Discovered{
			{Reference: "shop/web/a", State: api.DiscoveredActive},
			{Reference: "shop/web/b", State: api.DiscoveredInvalid},
			{Reference: "shop/web/c", State: api.DiscoveredActive},
		}
	})
	m.ShowCluster(func() Cluster { return Cluster{Offsets: map[string]float64{"hpad-2": -1.5}} })
	m.ShowBudgets(func() Budgets {
		return Budgets{Answers: sources.Usage{Total: 256, Used: 3, Waits: 2, Refusals: 1}, Samples: sources.Usage{Total: 10}}
	})
	m.ShowLost(func() map[string]bool { return map[string]bool{"memory": true, "history": false} })
	m.Configured([]string{"prod", "shop"}, []string{"prom"})
	m.DryRun(true)
	a := m.Autoscaler("checkout")
	a.Pass(view.Decision, InternalError, 20*time.Millisecond)
	a.Pass(view.Decision, NoError, 20*time.Millisecond)
	a.Rescaled(2, 4)
	a.Rescaled(4, 5)
	a.Rescaled(5, 5)
	a.Rescaled(5, 3) // a reversal
	a.Rescaled(3, 2)
	a.Rescaled(2, 4) // another reversal
	m.Late("checkout")
	m.Late("checkout")
	m.Panic("checkout")
	m.FleetCall("prod", "snapshot", time.Millisecond, nil)
	m.FleetCall("prod", "set_replicas", time.Millisecond, fmt.Errorf("scale: %w", targets.ErrConflict))
	m.FleetCall("prod", "samples", time.Millisecond, fmt.Errorf("%w: %w", targets.ErrTransient, context.DeadlineExceeded))
	meter := m.Platform("prod")
	meter.Call("DescribeAutoScalingGroups", 250*time.Millisecond, nil)
	meter.Call("DescribeAutoScalingGroups", 250*time.Millisecond, fmt.Errorf("describe: %w", &targets.ThrottledError{Err: errors.New("rate exceeded")}))
	meter.Call("SetDesiredCapacity", time.Second, errors.New("refused"))
	meter.Call("SetDesiredCapacity", time.Second, context.Canceled)
	meter.Wait("DescribeAutoScalingGroups", 2*time.Second)
	m.Query("prom", time.Second, errors.New("unreachable"))
	m.Query("prom", time.Second, context.Canceled)
	m.StateWrite(time.Millisecond, 3, nil)
	m.StateWrite(time.Millisecond, 2, errors.New("disk full"))
	m.Reload(errors.New("invalid file"))
	return m, m.Exposition(reg)
}

// series maps the text form of each series in a registry to its value. The value of a histogram is
// its number of observations.
func series(t *testing.T, reg prometheus.Gatherer) map[string]float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.Metric {
			var labels []string
			for _, label := range metric.Label {
				labels = append(labels, label.GetName()+"="+label.GetValue())
			}
			value := metric.GetGauge().GetValue() + metric.GetCounter().GetValue() + float64(metric.GetHistogram().GetSampleCount())
			found[family.GetName()+"{"+strings.Join(labels, ",")+"}"] = value
		}
	}
	return found
}

func TestMetrics(t *testing.T) {
	_, exposition := exercised(t)
	got := series(t, exposition)
	want := map[string]float64{
		"hpad_autoscalers{}": 1, "hpad_fleets{}": 2, "hpad_sources{}": 1,
		"hpad_discovered_targets{fleet=shop,state=active}":                                    2,
		"hpad_discovered_targets{fleet=shop,state=invalid}":                                   1,
		"hpad_discovered_targets{fleet=shop,state=disabled}":                                  0,
		"hpad_discovered_targets{fleet=shop,state=overridden}":                                0,
		"hpad_autoscaler_info{autoscaler=checkout,fleet=prod,kind=nomad,target=checkout/api}": 1,

		"hpad_autoscaler_current_replicas{autoscaler=checkout}":                   4,
		"hpad_autoscaler_desired_replicas{autoscaler=checkout}":                   6,
		"hpad_autoscaler_min_replicas{autoscaler=checkout}":                       2,
		"hpad_autoscaler_max_replicas{autoscaler=checkout}":                       40,
		"hpad_autoscaler_recommended_replicas{autoscaler=checkout}":               9,
		"hpad_autoscaler_platform_max_replicas{autoscaler=checkout}":              50,
		"hpad_autoscaler_condition{autoscaler=checkout,condition=AbleToScale}":    1,
		"hpad_autoscaler_condition{autoscaler=checkout,condition=ScalingActive}":  0,
		"hpad_autoscaler_condition{autoscaler=checkout,condition=ScalingLimited}": -1,
		"hpad_autoscaler_last_scale_timestamp_seconds{autoscaler=checkout}":       float64(now.Unix() - 60),
		"hpad_autoscaler_last_evaluation_timestamp_seconds{autoscaler=checkout}":  float64(now.Unix()),
		"hpad_autoscaler_last_evaluation_duration_seconds{autoscaler=checkout}":   0.25,
		"hpad_autoscaler_sync_period_seconds{autoscaler=checkout}":                15,
		"hpad_autoscaler_failing{autoscaler=checkout}":                            1,
		"hpad_autoscaler_held{autoscaler=checkout}":                               1,
		"hpad_autoscaler_disabled{autoscaler=checkout}":                           1,
		"hpad_dry_run{}": 1,
		"hpad_autoscaler_unevaluated{autoscaler=checkout}":                    1,
		"hpad_autoscaler_quarantined{autoscaler=checkout}":                    1,
		"hpad_autoscaler_late_passes_total{autoscaler=checkout}":              2,
		"hpad_autoscaler_paused{autoscaler=checkout}":                         1,
		"hpad_autoscaler_paused_until_timestamp_seconds{autoscaler=checkout}": float64(now.Unix() + 3*3600),
		"hpad_autoscaler_panics_total{autoscaler=checkout}":                   1,

		"hpad_autoscaler_reversals_total{autoscaler=checkout}":    2,
		"hpad_autoscaler_draining_instances{autoscaler=checkout}": 2,
		"hpad_autoscaler_overdue_drains{autoscaler=checkout}":     2,

		"hpad_autoscaler_metric_target{autoscaler=checkout,index=0,metric=cpu,target_type=Utilization,type=Resource}":            60,
		"hpad_autoscaler_metric_value{autoscaler=checkout,index=0,metric=cpu,target_type=Utilization,type=Resource}":             90,
		"hpad_autoscaler_metric_proposed_replicas{autoscaler=checkout,index=0,metric=cpu,target_type=Utilization,type=Resource}": 6,
		"hpad_autoscaler_metric_failed{autoscaler=checkout,index=0,metric=cpu,target_type=Utilization,type=Resource}":            0,
		"hpad_autoscaler_metric_target{autoscaler=checkout,index=1,metric=queue,target_type=AverageValue,type=External}":         30.5,
		"hpad_autoscaler_metric_failed{autoscaler=checkout,index=1,metric=queue,target_type=AverageValue,type=External}":         1,
		"hpad_autoscaler_metric_target{autoscaler=checkout,index=2,metric=rate,target_type=Value,type=Object}":                   100,
		"hpad_autoscaler_metric_value{autoscaler=checkout,index=2,metric=rate,target_type=Value,type=Object}":                    50,
		"hpad_autoscaler_metric_proposed_replicas{autoscaler=checkout,index=2,metric=rate,target_type=Value,type=Object}":        2,
		"hpad_autoscaler_metric_failed{autoscaler=checkout,index=2,metric=rate,target_type=Value,type=Object}":                   0,

		"hpad_platform_calls_total{fleet=prod,operation=DescribeAutoScalingGroups,result=success}":   1,
		"hpad_platform_calls_total{fleet=prod,operation=DescribeAutoScalingGroups,result=throttled}": 1,
		"hpad_platform_calls_total{fleet=prod,operation=SetDesiredCapacity,result=error}":            1,
		"hpad_platform_call_seconds_total{fleet=prod,operation=DescribeAutoScalingGroups}":           0.5,
		"hpad_platform_call_seconds_total{fleet=prod,operation=SetDesiredCapacity}":                  1,
		"hpad_platform_wait_seconds_total{fleet=prod,operation=DescribeAutoScalingGroups}":           2,

		"hpad_reconciliations_total{action=scale_up,error=internal}":                          1,
		"hpad_reconciliations_total{action=scale_up,error=none}":                              1,
		"hpad_reconciliations_total{action=scale_down,error=spec}":                            0,
		"hpad_reconciliation_duration_seconds{action=scale_up,error=none}":                    1,
		"hpad_metric_computation_total{action=scale_up,error=none,metric_type=Resource}":      2,
		"hpad_metric_computation_total{action=none,error=internal,metric_type=External}":      2,
		"hpad_metric_computation_total{action=scale_down,error=none,metric_type=Object}":      2,
		"hpad_metric_computation_total{action=none,error=none,metric_type=ContainerResource}": 0,
		"hpad_fleet_call_duration_seconds{call=snapshot,fleet=prod}":                          1,
		"hpad_fleet_call_duration_seconds{call=set_replicas,fleet=prod}":                      1,
		"hpad_fleet_call_duration_seconds{call=samples,fleet=shop}":                           0,
		"hpad_fleet_call_errors_total{call=set_replicas,fleet=prod,reason=conflict}":          1,
		"hpad_fleet_call_errors_total{call=snapshot,fleet=prod,reason=timeout}":               0,
		"hpad_fleet_call_errors_total{call=samples,fleet=prod,reason=timeout}":                1,
		"hpad_source_query_duration_seconds{source=prom}":                                     2,
		"hpad_source_query_errors_total{source=prom}":                                         1,
		"hpad_query_budget_limit{budget=query_response_memory}":                               256,
		"hpad_query_budget_used{budget=query_response_memory}":                                3,
		"hpad_query_budget_waits_total{budget=query_response_memory}":                         2,
		"hpad_query_budget_refusals_total{budget=query_response_memory}":                      1,
		"hpad_query_budget_limit{budget=query_samples}":                                       10,
		"hpad_query_budget_refusals_total{budget=query_samples}":                              0,
		"hpad_state_lost{part=memory}":                                                        1,
		"hpad_state_lost{part=history}":                                                       0,
		"hpad_state_write_duration_seconds{}":                                                 2,
		"hpad_state_written_records_total{}":                                                  3,
		"hpad_state_write_failures_total{}":                                                   1,
		"hpad_config_reloads_total{result=failure}":                                           1,
		"hpad_config_reloads_total{result=success}":                                           0,
		"hpad_config_last_reload_successful{}":                                                0,
	}
	for name, value := range want {
		if found, ok := got[name]; !ok || found != value {
			t.Errorf("%s = %v (exists: %v), want %v", name, found, ok, value)
		}
	}
	for name := range got {
		if strings.Contains(name, "metric=queue") && (strings.Contains(name, "_value{") || strings.Contains(name, "_proposed_")) {
			t.Errorf("unexpected series of the failed metric: %s", name)
		}
	}
}

// TestPauseWithoutEnd checks that no end time is exported if one of several pauses has no end.
func TestPauseWithoutEnd(t *testing.T) {
	m, exposition := exercised(t)
	view := checkout()
	view.Pauses[1].Until = time.Time{}
	m.Show(func() iter.Seq[api.Autoscaler] { return slices.Values([]api.Autoscaler{view}) })
	got := series(t, exposition)
	if got["hpad_autoscaler_paused{autoscaler=checkout}"] != 1 {
		t.Error("the autoscaler is not paused")
	}
	if until, ok := got["hpad_autoscaler_paused_until_timestamp_seconds{autoscaler=checkout}"]; ok {
		t.Errorf("end of the pause = %v, want no end", until)
	}
}

func TestMetricsAreClean(t *testing.T) {
	_, exposition := exercised(t)
	problems, err := testutil.GatherAndLint(exposition)
	if err != nil {
		t.Fatal(err)
	}
	for _, problem := range problems {
		t.Errorf("%s: %s", problem.Metric, problem.Text)
	}
}

// documented returns the type and the labels of each metric in the tables of docs/metrics.md.
// Labels that are common to a table are listed above it.
func documented(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `(hpad_\\w+)` \\| (\\w+) \\|([^|]*)\\| \\S[^|]*\\|$").FindAllStringSubmatch(string(text), -1) {
		labels := regexp.MustCompile(`\w+`).FindAllString(row[3], -1)
		if strings.HasPrefix(row[1], "hpad_autoscaler_") {
			labels = append(labels, "autoscaler")
		}
		if strings.HasPrefix(row[1], "hpad_autoscaler_metric_") {
			labels = append(labels, "index", "type", "metric", "target_type")
		}
		slices.Sort(labels)
		if _, twice := found[row[1]]; twice {
			t.Errorf("docs/metrics.md contains %s twice", row[1])
		}
		found[row[1]] = row[2] + " " + strings.Join(labels, " ")
	}
	return found
}

func TestMetricsAreDocumented(t *testing.T) {
	m, exposition := exercised(t)
	m.ShowReceivers(func() map[string]notify.Counts { return map[string]notify.Counts{"chat": {}} })
	m.ShowBreakers(func() map[string]Breaker { return map[string]Breaker{"prod": {}} })
	families, err := exposition.Gather()
	if err != nil {
		t.Fatal(err)
	}
	exposed := map[string]string{}
	for _, family := range families {
		labels := map[string]bool{}
		for _, metric := range family.Metric {
			for _, label := range metric.Label {
				labels[label.GetName()] = true
			}
		}
		exposed[family.GetName()] = strings.ToLower(family.GetType().String()) + " " + strings.Join(slices.Sorted(maps.Keys(labels)), " ")
	}
	if diff := cmp.Diff(exposed, documented(t)); diff != "" {
		t.Errorf("docs/metrics.md (-registry +docs):\n%s", diff)
	}
}

func TestSeriesAreRemoved(t *testing.T) {
	m, exposition := exercised(t)
	handle := m.Autoscaler("checkout")
	m.Forget("checkout")
	m.Show(func() iter.Seq[api.Autoscaler] { return slices.Values([]api.Autoscaler(nil)) })
	m.Configured([]string{"shop"}, nil)
	handle.Pass(checkout().Decision, NoError, time.Second) // a running pass
	m.Late("checkout")
	m.Panic("checkout")
	for name := range series(t, exposition) {
		if strings.Contains(name, "checkout") || strings.Contains(name, "prod") || strings.Contains(name, "prom") {
			t.Errorf("%s still exists", name)
		}
	}
	m.Show(func() iter.Seq[api.Autoscaler] { return slices.Values([]api.Autoscaler{checkout()}) })
	if late := series(t, exposition)["hpad_autoscaler_late_passes_total{autoscaler=checkout}"]; late != 0 {
		t.Errorf("late passes of a new autoscaler with the same name = %v, want 0", late)
	}
}

func TestNewAutoscaler(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	m := New(reg)
	m.Autoscaler("new")
	m.Show(func() iter.Seq[api.Autoscaler] {
		return slices.Values([]api.Autoscaler{{Name: "new", Spec: policy.Spec{MaxReplicas: 3, Metrics: []policy.MetricSpec{{Type: policy.ExternalMetric, Name: "q"}}}}})
	})
	got := series(t, m.Exposition(reg))
	for _, absent := range []string{"min_replicas", "desired_replicas", "recommended_replicas", "platform_max_replicas", "last_scale_timestamp_seconds", "last_evaluation_timestamp_seconds"} {
		if _, there := got["hpad_autoscaler_"+absent+"{autoscaler=new}"]; there {
			t.Errorf("%s exists", absent)
		}
	}
	for _, present := range []string{"max_replicas", "failing", "late_passes_total", "panics_total"} {
		if _, there := got["hpad_autoscaler_"+present+"{autoscaler=new}"]; !there {
			t.Errorf("%s is missing", present)
		}
	}
}
