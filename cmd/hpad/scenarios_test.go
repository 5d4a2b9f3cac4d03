package main

import (
	"fmt"
	"time"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/api/apitest"
	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/reason"
	"github.com/hpad/hpad/policy"
)

var (
	now  = time.Date(2026, 11, 21, 12, 0, 20, 0, time.UTC)
	tick = now.Add(-5 * time.Second)
)

func listed() api.InstanceList {
	list := api.InstanceList{Time: now}
	for i := range 22 {
		milli := int64(100 * i)
		list.Instances = append(list.Instances, api.Instance{
			ID: fmt.Sprintf("%08x", i), Name: fmt.Sprintf("mailer[%d]", i), Node: "node-1", Phase: "Running", Readiness: "True", Started: now.Add(-time.Hour),
			Metrics: []api.InstanceMetric{{Type: policy.ResourceMetric, Name: "cpu", Measured: policy.Measured{Group: "ready", ValueMilli: &milli}}},
		})
	}
	return list
}

// past returns a history with every possible outcome of a decision.
func past() []api.Recorded {
	at := now.Add(-time.Hour).Truncate(time.Minute)
	entry := func(minute int, from, to int32, edit func(*api.Recorded)) api.Recorded {
		when := at.Add(time.Duration(minute) * time.Minute)
		r := api.Recorded{Autoscaler: "past", Time: when, Decision: policy.Decision{
			Time: when, Case: policy.CaseMetrics, CurrentReplicas: from, DesiredReplicas: to, MinReplicas: 1, MaxReplicas: 20,
			Write: from != to, Recommendation: &to,
		}}
		edit(&r)
		return r
	}
	unreadable := func(text string) func(*api.Recorded) {
		return func(r *api.Recorded) {
			r.Decision = policy.Decision{Time: r.Time, Case: policy.CaseUnreadable, MinReplicas: 1, MaxReplicas: 20, Error: text}
			r.Error, r.Since = text, r.Time
		}
	}
	long := `scale service "shop/web" of fleet "docker" to 3 replicas: 2 replicas reached: start container "shop-web-3": ` +
		`driver failed programming external connectivity on endpoint shop-web-3: Bind for 0.0.0.0:8080 failed: port is already allocated`
	return []api.Recorded{
		entry(0, 1, 3, func(r *api.Recorded) {
			r.Hold = &policy.Hold{Reason: "DependencyNotReady", Message: `service "web" depends on "db" (service_healthy), which is not healthy; new replicas wait for it`}
			r.Since = r.Time.Add(-2 * time.Minute)
		}),
		entry(1, 1, 3, func(r *api.Recorded) { r.Written, r.Error = new(int32(2)), long }),
		entry(2, 1, 20, func(r *api.Recorded) {
			r.Decision.Case, r.Decision.Recommendation = policy.CaseRestored, nil
			r.Decision.Foreign, r.Written = &policy.ForeignChange{From: 20}, new(int32(20))
			r.Decision.Restore = &policy.Restoration{Replicas: 20, Foreign: 1, Since: r.Time}
		}),
		entry(3, 20, 20, func(r *api.Recorded) {
			r.Events = []policy.Event{{Kind: policy.NormalEvent, Reason: api.BoundsChanged, Message: "the configuration changed max from 20 to 30"}}
		}),
		entry(4, 0, 0, unreadable("read the containers: connection refused")),
		entry(24, 0, 0, func(r *api.Recorded) {
			unreadable("read the containers: permission denied")(r)
			r.Unreported = &api.Unreported{Changes: 57, From: r.Time.Add(-19 * time.Minute)}
		}),
		entry(30, 4, 5, func(r *api.Recorded) { r.Decision.Foreign, r.Written = &policy.ForeignChange{From: 20}, new(int32(5)) }),
	}
}

func recorded(list []api.Autoscaler) []api.Recorded {
	all := past()
	for _, view := range list {
		if view.Decision == nil {
			continue
		}
		became := view.Evaluation
		entry := api.Recorded{
			Autoscaler: view.Name, Time: view.Decision.Time, Decision: *view.Decision, Error: became.Error,
			Written: became.Written, Hold: became.Hold, DryRun: became.DryRun, Since: became.Since, Unreported: became.Unreported,
			Reason: became.Reason,
		}
		for _, event := range view.Events {
			entry.Events = append(entry.Events, event.Event)
		}
		all = append(all, entry)
		if view.Name == "rehearsal" {
			entry.Time = entry.Time.Add(-10 * time.Minute)
			entry.Decision.Time = entry.Time
			all = append(all, entry)
		}
	}
	return all
}

// settings contains the daemon's defaults.
var settings = policy.Settings{
	Tolerance:               0.1,
	DownscaleStabilization:  5 * time.Minute,
	CPUInitializationPeriod: 5 * time.Minute,
	InitialReadinessDelay:   30 * time.Second,
	ScaleToZero:             true,
}

// cpuMetric and queueMetric are the metrics of the scenarios.
var (
	cpuMetric = policy.MetricSpec{Type: policy.ResourceMetric, Name: "cpu", Target: policy.MetricTarget{
		Type: policy.UtilizationTarget, AverageUtilization: new(int32(60)),
	}}
	queueMetric = policy.MetricSpec{Type: policy.ExternalMetric, Name: "queue", Target: policy.MetricTarget{
		Type: policy.AverageValueTarget, AverageValueMilli: new(int64(30_000)),
	}}
	queueInput = api.Input{
		Source: "prom",
		Query:  "sum by (queue) (\n  rabbitmq_queue_messages_ready\n)",
		Select: map[string]string{"queue": "checkout", "env": "prod"},
	}
)

// passed returns the view of an autoscaler after one evaluation by the real policy, with the given
// outcome of the write.
func passed(name, kind string, spec policy.Spec, memory policy.Memory, status policy.Status, seen policy.Observation, outcome policy.Outcome, inputs ...api.Input) api.Autoscaler {
	spec = policy.Default(spec)
	decision := policy.Decide(settings, spec, memory, status, seen, tick)
	settled := policy.Settle(decision, outcome, tick)
	view := api.Autoscaler{
		Name: name, Reference: "prod/" + name, Kind: kind, Created: now.Add(-50 * time.Hour),
		Spec: spec, Status: settled.Status, SyncPeriodSeconds: 15,
		Evaluation: api.Evaluation{Last: tick, Next: tick.Add(15 * time.Second), DurationSeconds: 0.0421, Error: settled.Error},
		Decision:   &decision, Inputs: inputs,
	}
	view.Evaluation.Hold = outcome.Hold
	view.Evaluation.Reason = reason.Of(reason.Pass{Decision: &decision, Outcome: outcome, Failed: settled.Error != ""}).String()
	if outcome.Kind == policy.Written {
		view.Evaluation.Written = &outcome.Reached
	}
	view.Next = nextOf(&view, decision, settled, outcome)
	for _, event := range settled.Events {
		view.Events = append(view.Events, api.Event{Event: event, Count: 1, First: tick, Last: tick})
	}
	return view
}

func nextOf(view *api.Autoscaler, decision policy.Decision, settled policy.Settlement, outcome policy.Outcome) *policy.Next {
	count := decision.CurrentReplicas
	if outcome.Kind == policy.Written {
		count = outcome.Reached
	}
	next := policy.LookAhead(settings, view.Spec, settled.Memory, settled.Status, decision, count)
	for _, at := range []*time.Time{&next.At, atOf(next.Up), atOf(next.Down)} {
		if at != nil && !at.IsZero() {
			*at = at.Add(15*time.Second - 1).Truncate(15 * time.Second)
			if at.Before(view.Evaluation.Next) {
				*at = view.Evaluation.Next
			}
		}
	}
	return &next
}

func atOf(move *policy.Move) *time.Time {
	if move == nil {
		return nil
	}
	return &move.At
}

// working returns instances that each request half a core and use milli thousandths of a core.
func working(count int, milli int64) ([]policy.Instance, policy.Reading) {
	var instances []policy.Instance
	var reading policy.Reading
	for i := range count {
		instances = append(instances, policy.Instance{
			ID: fmt.Sprint(i), Phase: policy.PhaseRunning, Readiness: policy.ReadinessTrue,
			StartedAt: tick.Add(-time.Hour), ReadinessChanged: tick.Add(-time.Hour),
			Tasks: []policy.Task{{Name: "app", Requests: []policy.Amount{{Resource: "cpu", Milli: 500}}}},
		})
		reading.Samples = append(reading.Samples, policy.Sample{Milli: milli, OK: true, At: tick, Window: time.Minute})
	}
	return instances, reading
}

// scenarios returns a daemon with the autoscalers that the functions below return.
func scenarios() *apitest.Daemon {
	list := []api.Autoscaler{
		growing(), shrinking(), steady(), blind(), gone(), tooMany(), switchedOff(), rehearsing(), looping(), fresh(), crashing(), overruled(), labeled(),
	}
	return &apitest.Daemon{
		Listed: listed(),
		Output: "connected\nready\n",
		Changes: []config.Change{
			{Key: "daemon.listen", Kind: config.Changed, Before: `"127.0.0.1:4720"`, After: `":4720"`, NextStart: true},
			{Key: "autoscalers.fresh", Kind: config.Added},
			{Key: "autoscalers.checkout.max_replicas", Kind: config.Changed, Before: "40", After: "50"},
		},
		List:     list,
		Alive:    api.Health{Healthy: true, LastTick: tick},
		State:    api.Readiness{Ready: true},
		Recorded: recorded(list),
		Verified: api.Verification{
			Engine: 1, Checked: 120, Identical: 15, Different: 103, NotVerifiable: 2,
			Differences: []api.Difference{
				{Autoscaler: "checkout", Time: tick, Fields: []api.DifferentField{
					{Field: "limit.reason", Recorded: `"ScaleUpLimit"`}, {Field: "limit.replicas", Recorded: "5", Now: "6"},
				}},
				{Autoscaler: "checkout", Time: tick.Add(15 * time.Second), Error: "checksum does not match"},
			},
		},
		Targets: []api.Discovered{
			{Reference: "prod/batch", State: api.DiscoveredOverridden, Autoscaler: "batch"},
			{Reference: "prod/batch/main", State: api.DiscoveredOverridden, Autoscaler: "nightly"},
			{Reference: "prod/mail/send", State: api.DiscoveredActive, Autoscaler: "prod/mail/send"},
			{Reference: "prod/shop/cart", State: api.DiscoveredInvalid, Autoscaler: "prod/shop/cart", Problem: "hpad.maxx: unknown label; did you mean \"max\"?; the previous labels stay active"},
			{Reference: "prod/shop/jobs", State: api.DiscoveredDisabled},
			{Reference: "prod/shop/mail", State: api.DiscoveredInvalid, Problem: `hpad.max = "many": must be a whole number`},
		},
	}
}

// growing returns an autoscaler that scales up as fast as its policies allow. One of its instances
// is not ready, and one has no sample.
func growing() api.Autoscaler {
	instances, cpu := working(5, 620)
	instances[3].Phase = policy.PhasePending
	cpu.Samples[4].OK = false
	queue := policy.Reading{ValuesMilli: []int64{100_000, 31_000}, Warnings: []string{"the response is from a replica"}}
	return passed("checkout", "nomad",
		policy.Spec{
			MinReplicas: new(int32(2)), MaxReplicas: 40,
			Metrics: []policy.MetricSpec{cpuMetric, queueMetric},
			Behavior: &policy.Behavior{ScaleUp: &policy.ScalingRules{
				Policies: []policy.ScalingPolicy{{Type: policy.PercentPolicy, Value: 20, PeriodSeconds: 60}},
			}},
		},
		policy.Memory{}, policy.Status{},
		policy.Observation{SpecReplicas: 4, StatusReplicas: 4, Instances: instances, Metrics: []policy.Reading{cpu, queue}},
		policy.Outcome{Kind: policy.Written, Reached: 5},
		api.Input{}, queueInput)
}

func shrinking() api.Autoscaler {
	instances, cpu := working(8, 90)
	memory := policy.Memory{Recommendations: []policy.Recommendation{
		{Replicas: 8, Time: tick.Add(-6 * time.Minute)},
		{Replicas: 6, Time: tick.Add(-75 * time.Second)},
	}}
	return passed("search", "compose",
		policy.Spec{
			MaxReplicas: 20, Metrics: []policy.MetricSpec{cpuMetric},
			Behavior: &policy.Behavior{ScaleDown: &policy.ScalingRules{
				StabilizationWindowSeconds: new(int32(300)), Tolerance: new(0.05), SelectPolicy: policy.MinChange,
				Policies: []policy.ScalingPolicy{
					{Type: policy.PercentPolicy, Value: 10, PeriodSeconds: 60},
					{Type: policy.InstancesPolicy, Value: 4, PeriodSeconds: 60},
				},
			}},
		},
		memory, policy.Status{LastScaleTime: tick.Add(-20 * time.Minute)},
		policy.Observation{SpecReplicas: 8, StatusReplicas: 8, Instances: instances, Metrics: []policy.Reading{cpu}},
		policy.Outcome{Kind: policy.Written, Reached: 7}, api.Input{})
}

// steady returns an autoscaler whose metric is within the tolerance of its target value.
func steady() api.Autoscaler {
	instances, cpu := working(3, 305)
	return passed("steady", "process",
		policy.Spec{MaxReplicas: 5, Metrics: []policy.MetricSpec{cpuMetric}},
		policy.Memory{}, policy.Status{},
		policy.Observation{SpecReplicas: 3, StatusReplicas: 3, Instances: instances, Metrics: []policy.Reading{cpu}},
		policy.Outcome{}, api.Input{})
}

// blind returns an autoscaler whose only metric cannot be read.
func blind() api.Autoscaler {
	instances, _ := working(6, 0)
	view := passed("mailer", "nomad",
		policy.Spec{MaxReplicas: 10, Metrics: []policy.MetricSpec{queueMetric}},
		policy.Memory{}, policy.Status{},
		policy.Observation{SpecReplicas: 6, StatusReplicas: 6, Instances: instances, Metrics: []policy.Reading{{
			Error: `query source "prom" at http://127.0.0.1:9090: connection refused`,
		}}},
		policy.Outcome{}, queueInput)
	for i := range view.Events {
		view.Events[i].Count, view.Events[i].First = 5, tick.Add(-time.Minute)
	}
	return view
}

// gone returns an autoscaler without a target that was last evaluated 2 minutes ago.
func gone() api.Autoscaler {
	view := passed("ghost", "nomad",
		policy.Spec{MaxReplicas: 10, Metrics: []policy.MetricSpec{cpuMetric}},
		policy.Memory{}, policy.Status{},
		policy.Observation{ReadError: `read job "ghost": target not found`},
		policy.Outcome{}, api.Input{})
	view.Evaluation.Late = 7
	view.Evaluation.Unevaluated = true
	view.Evaluation.Last = tick.Add(-2 * time.Minute)
	return view
}

// tooMany returns an autoscaler whose count is above the maximum, but cannot be changed while a
// deployment is running.
func tooMany() api.Autoscaler {
	hold := &policy.Hold{Reason: "DeploymentRunning", Message: "deployment 5f3c of the job is running", Until: tick.Add(time.Minute)}
	return passed("shop", "nomad",
		policy.Spec{MaxReplicas: 10, Metrics: []policy.MetricSpec{cpuMetric}},
		policy.Memory{}, policy.Status{},
		policy.Observation{SpecReplicas: 12, StatusReplicas: 12, Hold: hold},
		policy.Outcome{Kind: policy.WriteHeld, Hold: hold}, api.Input{})
}

// switchedOff returns an autoscaler whose target a user set to 0 replicas. The target also has
// labels.
func switchedOff() api.Autoscaler {
	view := passed("batch", "nomad",
		policy.Spec{MaxReplicas: 10, Metrics: []policy.MetricSpec{cpuMetric}},
		policy.Memory{}, policy.Status{},
		policy.Observation{}, policy.Outcome{}, api.Input{})
	view.Discovery = &api.Discovered{Reference: "prod/batch", State: api.DiscoveredOverridden, Autoscaler: "batch"}
	return view
}

// labeled returns an autoscaler that is defined by its target's labels, which have since become
// invalid.
func labeled() api.Autoscaler {
	view := steady()
	view.Name, view.Reference, view.Kind = "prod/shop/cart", "prod/shop/cart", "compose"
	view.Labels = map[string]string{"hpad.enable": "true", "hpad.max": "5", "hpad.cpu": "60"}
	view.Discovery = &api.Discovered{
		Reference: "prod/shop/cart", State: api.DiscoveredInvalid, Autoscaler: "prod/shop/cart",
		Problem: "hpad.maxx: unknown label; did you mean \"max\"?; the previous labels stay active",
	}
	return view
}

func overruled() api.Autoscaler {
	hold := &policy.Hold{Reason: "DeploymentRunning", Message: "deployment 5f3c of the job is running"}
	restore := &policy.Restoration{Replicas: 20, Foreign: 1, Since: tick.Add(-time.Minute)}
	view := passed("reset", "nomad",
		policy.Spec{MaxReplicas: 40, Metrics: []policy.MetricSpec{queueMetric}},
		policy.Memory{}, policy.Status{},
		policy.Observation{
			SpecReplicas: 1, StatusReplicas: 1, Hold: hold, Restore: restore,
			Metrics: []policy.Reading{{ValuesMilli: []int64{200_000, 340_000}}},
		},
		policy.Outcome{}, queueInput)
	view.Restore = restore
	view.Instances = api.Instances{Ready: 1}
	return view
}

// rehearsing returns an autoscaler that would scale up if hpad were not in a dry run.
func rehearsing() api.Autoscaler {
	instances, reading := working(2, 450)
	view := passed("rehearsal", "compose",
		policy.Spec{MaxReplicas: 10, Metrics: []policy.MetricSpec{cpuMetric}},
		policy.Memory{}, policy.Status{},
		policy.Observation{SpecReplicas: 2, StatusReplicas: 2, Instances: instances, Metrics: []policy.Reading{reading}},
		policy.Outcome{}, api.Input{})
	view.Evaluation.DryRun = true
	view.Next.Waits = append(view.Next.Waits, policy.Wait{Reason: reason.DryRun.String()})
	view.Instances = api.Instances{Ready: 2}
	return view
}

// looping returns an autoscaler whose instances crash as soon as they start.
func looping() api.Autoscaler {
	view := passed("looping", "process",
		policy.Spec{MaxReplicas: 10, Metrics: []policy.MetricSpec{queueMetric}},
		policy.Memory{}, policy.Status{},
		policy.Observation{SpecReplicas: 2, StatusReplicas: 2, Metrics: []policy.Reading{{ValuesMilli: []int64{60_000}}}},
		policy.Outcome{}, queueInput)
	view.Instances = api.Instances{Pending: 2}
	return view
}

func fresh() api.Autoscaler {
	return api.Autoscaler{
		Name: "fresh", Reference: "local/fresh", Kind: "process", Created: now.Add(-3 * time.Second),
		Spec: policy.Default(policy.Spec{MaxReplicas: 3}), SyncPeriodSeconds: 1,
		Evaluation: api.Evaluation{Next: now.Add(time.Second)}, Inputs: []api.Input{{}},
	}
}

func crashing() api.Autoscaler {
	view := fresh()
	view.Name, view.Reference = "crashing", "local/crashing"
	view.Evaluation.Error = "panic: runtime error: index out of range [3] with length 3"
	view.Evaluation.Reason = reason.Quarantined.String()
	view.Evaluation.QuarantinedUntil = now.Add(4 * time.Minute)
	return view
}
