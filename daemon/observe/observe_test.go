package observe_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/daemontest"
	"github.com/hpad/hpad/daemon/explain"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/sources"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/targettest"
)

// busy returns a function that distributes the CPU use total evenly among the running instances.
func busy(total int64) func(time.Time, policy.Instance, int) []policy.TaskUsage {
	return func(_ time.Time, _ policy.Instance, running int) []policy.TaskUsage {
		return []policy.TaskUsage{{Task: "app", Usage: []policy.Amount{{Resource: "cpu", Milli: total / int64(running)}}}}
	}
}

func TestFleetSamples(t *testing.T) {
	stated := []policy.Task{{Name: "app", Requests: []policy.Amount{{Resource: "cpu", Milli: 500}}}}
	for _, test := range []struct {
		name     string
		tasks    []policy.Task
		requests []policy.Amount
		usage    int64
		want     int32
		says     string
	}{
		// 2 cores over 50 % of 500m each: 8 instances.
		{"scale-up", stated, nil, 2000, 8, ""},
		{"configured requests replace missing requests of the fleet", []policy.Task{{Name: "app"}}, []policy.Amount{{Resource: "cpu", Milli: 500}}, 2000, 8, ""},
		{"no requests at all", []policy.Task{{Name: "app"}}, nil, 2000, 4, "request"},
		{"below zero", stated, nil, -2000, 4, "negative"},
	} {
		t.Run(test.name, func(t *testing.T) {
			daemontest.Run(t, func(t *testing.T, w *daemontest.World) {
				w.Add("q", 4, daemontest.Resource(50), func(a *config.Autoscaler) { a.Requests = test.requests })
				w.Fleet().Change("q", func(target *targettest.MemoryTarget) { target.Tasks, target.Usage = test.tasks, busy(test.usage) })
				w.Start()
				w.Advance(20 * time.Second)
				if got := w.Fleet().Replicas("q"); got != test.want {
					t.Errorf("replicas = %d, want %d", got, test.want)
				}
				if got := w.View("q").Evaluation.Error; test.says != "" && !daemontest.Contains([]string{got}, test.says) {
					t.Errorf("error = %q, want it to contain %q", got, test.says)
				}
				w.Stop()
			})
		})
	}
}

// TestUtilizationOfLimit checks that the limits of the instances replace all requests, that the
// decision can be repeated from its record, and that a missing limit fails the metric.
func TestUtilizationOfLimit(t *testing.T) {
	limit := []policy.Amount{{Resource: "cpu", Milli: 1000}}
	for _, test := range []struct {
		name   string
		limits []policy.Amount // of the first instance; the others have the limit
		want   int32
		says   string
	}{
		// 4 cores over 50 % of 1000m each: 8 instances. With the requests, it would be 40.
		{"scale-up", limit, 8, "Kept at 8: cpu is 50% of the limit, target 50%"},
		{"one instance without a limit", []policy.Amount{{Resource: "memory", Milli: 1000}}, 4, `has no cpu limit: set CPUQuota= in the unit file`},
	} {
		t.Run(test.name, func(t *testing.T) {
			daemontest.Run(t, func(t *testing.T, w *daemontest.World) {
				w.Kind = "systemd"
				w.Add("q", 4, daemontest.Resource(50), func(a *config.Autoscaler) {
					a.Spec.Metrics[0].Target.UtilizationOf = policy.UtilizationOfLimit
					a.Requests = []policy.Amount{{Resource: "cpu", Milli: 200}}
				})
				w.Fleet().Change("q", func(target *targettest.MemoryTarget) {
					target.Tasks, target.Usage = []policy.Task{{Name: "app", Requests: limit}}, busy(4000)
					target.Edit = func(reading *targets.Reading) {
						locations := make(targets.LocationList, len(reading.Instances))
						for i := range locations {
							locations[i].Limits = limit
						}
						locations[0].Limits = test.limits
						reading.Locations = locations
					}
				})
				w.Start()
				w.Advance(20 * time.Second)
				if got := w.Fleet().Replicas("q"); got != test.want {
					t.Errorf("replicas = %d, want %d", got, test.want)
				}
				var text strings.Builder
				if err := explain.Write(&text, w.View("q").Explanation(), time.UTC); err != nil {
					t.Fatal(err)
				}
				if got := explain.MetricTitle(w.View("q").Spec.Metrics[0]); !strings.Contains(got, "(as a percentage of limit)") {
					t.Errorf("title of the metric = %q", got)
				}
				if !strings.Contains(text.String(), test.says) {
					t.Errorf("explanation:\n%s\nwant %q", &text, test.says)
				}
				w.Stop()
			})
		})
	}
}

// TestNoInstancesToMeasure checks that missing samples of a target at zero replicas are not a
// failure if another metric can start the first instance.
func TestNoInstancesToMeasure(t *testing.T) {
	daemontest.Run(t, func(t *testing.T, w *daemontest.World) {
		w.Add("q", 1, func(a *config.Autoscaler) {
			queue, input := a.Spec.Metrics[0], a.Inputs[0]
			daemontest.Resource(50)(a)
			a.Spec.MinReplicas = new(int32)
			a.Spec.Metrics, a.Inputs = append(a.Spec.Metrics, queue), append(a.Inputs, input)
		})
		w.Fleet().Change("q", func(target *targettest.MemoryTarget) {
			target.Tasks = []policy.Task{{Name: "app", Requests: []policy.Amount{{Resource: "cpu", Milli: 500}}}}
			target.Usage = busy(0)
		})
		w.Source().Value("q", 0)
		w.Start()
		for range 40 { // longer than the scale-down window
			w.Advance(15 * time.Second)
		}
		if got := w.Fleet().Replicas("q"); got != 0 {
			t.Fatalf("replicas = %d, want 0", got)
		}
		view := w.View("q")
		if got := view.Decision.Metrics[0].Error; got != "the target has no instances" {
			t.Errorf("error of the metric = %q, want an error about missing instances", got)
		}
		if got := view.Evaluation.Error; got != "" {
			t.Errorf("error = %q, want none at zero replicas", got)
		}
		w.Source().Set("q", func(context.Context, time.Time) (sources.Vector, error) {
			return sources.Vector{}, errors.New("no route to host")
		})
		w.Advance(15 * time.Second)
		if got := w.View("q").Evaluation.Error; !strings.Contains(got, "2 of 2 metrics failed") {
			t.Errorf("error = %q, want both metrics to fail", got)
		}
		w.Stop()
	})
}

// instances configures a metric with one value per instance.
func instances(average int64, in config.Input) func(a *config.Autoscaler) {
	return func(a *config.Autoscaler) {
		a.Spec.Metrics = []policy.MetricSpec{{
			Type: policy.InstancesMetric, Name: "requests",
			Target: policy.MetricTarget{Type: policy.AverageValueTarget, AverageValueMilli: &average},
		}}
		in.Source, in.Query = "source", "requests"
		a.Inputs = []config.Input{in}
	}
}

func TestSeriesFindTheirInstances(t *testing.T) {
	labelled := func(value float64, labels ...string) sources.Series {
		s := sources.Series{Value: value}
		for i := 0; i < len(labels); i += 2 {
			s.Labels = append(s.Labels, sources.Label{Name: labels[i], Value: labels[i+1]})
		}
		return s
	}
	locations := func(reading *targets.Reading) {
		list := make(targets.LocationList, len(reading.Instances))
		for i := range list {
			list[i] = targets.Location{
				Name: fmt.Sprintf("name-%d", i), Addresses: []string{fmt.Sprintf("10.0.0.%d", i)}, Ports: targets.Ports{{Number: 80}},
			}
		}
		reading.Locations = list
	}
	for _, test := range []struct {
		name   string
		in     config.Input
		series func(ids []string) []sources.Series
		want   int32
		says   string
		groups policy.Groups
	}{
		{
			"by ID",
			config.Input{InstanceLabel: "id", Match: config.MatchID},
			func(ids []string) []sources.Series {
				return []sources.Series{labelled(20, "id", ids[0]), labelled(40, "id", ids[1]), labelled(9999, "id", "other-1")}
			},
			6, "",
			policy.Groups{Ready: 2},
		},
		{
			"too few instances",
			config.Input{InstanceLabel: "id", Match: config.MatchID, MinSeries: 2},
			func(ids []string) []sources.Series {
				return []sources.Series{labelled(20, "id", ids[0]), labelled(9999, "id", "other-1")}
			},
			2, "1 instances have a series, but min_series = 2",
			policy.Groups{},
		},
		{
			"outside the valid range",
			config.Input{InstanceLabel: "id", Match: config.MatchID, Valid: &config.Range{Max: 30_000}},
			func(ids []string) []sources.Series {
				return []sources.Series{labelled(20, "id", ids[0]), labelled(40, "id", ids[1])}
			},
			2, `has the value 40, which is outside valid = [0, 30]`,
			policy.Groups{},
		},
		{
			"by name",
			config.Input{InstanceLabel: "name", Match: config.MatchName},
			func([]string) []sources.Series {
				return []sources.Series{labelled(20, "name", "name-0"), labelled(40, "name", "name-1")}
			},
			6, "",
			policy.Groups{Ready: 2},
		},
		{
			"by address with and without a port",
			config.Input{InstanceLabel: "instance", Match: config.MatchAddress},
			func([]string) []sources.Series {
				return []sources.Series{labelled(20, "instance", "10.0.0.0:80"), labelled(40, "instance", "10.0.0.1"), labelled(9999, "instance", "10.0.0.1:81")}
			},
			6, "",
			policy.Groups{Ready: 2},
		},
		{
			"with selected series",
			config.Input{InstanceLabel: "id", Match: config.MatchID, Select: sources.Labels{{Name: "code", Value: "200"}, {Name: "method", Value: "GET"}}},
			func(ids []string) []sources.Series {
				return []sources.Series{
					labelled(20, "id", ids[0], "code", "200", "method", "GET"), labelled(40, "id", ids[1], "code", "200", "method", "GET"),
					labelled(9999, "id", ids[1], "code", "500", "method", "GET"), labelled(9999, "id", ids[1], "code", "200"),
				}
			},
			6, "",
			policy.Groups{Ready: 2},
		},
		{
			// 40 against 10 scales up, so the missing value is treated as 0 (R37): 20/10.
			"one series missing",
			config.Input{InstanceLabel: "id", Match: config.MatchID},
			func(ids []string) []sources.Series { return []sources.Series{labelled(40, "id", ids[0])} },
			4, "",
			policy.Groups{Ready: 1, Missing: 1},
		},
		{
			"no matching series",
			config.Input{InstanceLabel: "id", Match: config.MatchID},
			func([]string) []sources.Series { return []sources.Series{labelled(40, "id", "other-1")} },
			2, "but none belongs to a current instance of the target",
			policy.Groups{},
		},
		{
			"two series for one instance",
			config.Input{InstanceLabel: "id", Match: config.MatchID},
			func(ids []string) []sources.Series {
				return []sources.Series{labelled(20, "id", ids[0], "code", "200"), labelled(20, "id", ids[0], "code", "500")}
			},
			2, "2 series for instance",
			policy.Groups{},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			daemontest.Run(t, func(t *testing.T, w *daemontest.World) {
				w.Add("q", 2, instances(10_000, test.in))
				w.Fleet().Change("q", func(target *targettest.MemoryTarget) { target.Edit = locations })
				readings, err := w.Fleet().Snapshot(t.Context(), []targets.Ref{w.Fleet().Ref("q")})
				if err != nil {
					t.Fatal(err)
				}
				var ids []string
				for _, instance := range readings[w.Fleet().Ref("q")].Instances {
					ids = append(ids, instance.ID)
				}
				w.Source().Set("requests", func(_ context.Context, at time.Time) (sources.Vector, error) {
					return sources.Vector{Series: test.series(ids)}, nil
				})
				w.Start()
				w.Advance(time.Second)
				decision := w.View("q").Decision
				if decision.DesiredReplicas != min(test.want, 4) { // R57: at most twice the count
					t.Errorf("desired = %d, want %d", decision.DesiredReplicas, min(test.want, 4))
				}
				result := decision.Metrics[0]
				if test.says != "" {
					if !daemontest.Contains([]string{result.Error}, test.says) {
						t.Errorf("error = %q, want it to contain %q", result.Error, test.says)
					}
				} else if result.Groups == nil || result.Proposal != test.want {
					t.Errorf("result = %+v, want a proposal of %d", result, test.want)
				} else if diff := cmp.Diff(test.groups, *result.Groups); diff != "" {
					t.Errorf("groups (-want +got):\n%s", diff)
				}
				w.Stop()
			})
		})
	}
}

// TestStrictDecidesOnNegativeValues checks that compat = "strict" accepts negative values, like
// upstream: R43 treats a negative total as the largest integer.
func TestStrictDecidesOnNegativeValues(t *testing.T) {
	daemontest.Run(t, func(t *testing.T, w *daemontest.World) {
		w.Config.Daemon.Compat = config.CompatStrict
		w.Add("q", 3)
		w.Source().Value("q", -1)
		w.Start()
		w.Advance(time.Second)
		if got := w.Fleet().Replicas("q"); got != 6 {
			t.Errorf("replicas = %d, want 6", got)
		}
		w.Stop()
	})
}
