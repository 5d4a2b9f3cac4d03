package simulate

import (
	"math"
	"slices"
	"strings"
	"time"

	"github.com/hpad/hpad/policy"
)

// observer builds observations from ticks. Decide then computes the same groups and sums as in the
// recorded pass. Its buffers are reused, so an observation is valid until the next call.
type observer struct {
	metrics   []policy.MetricSpec
	instances []policy.Instance
	samples   [][]policy.Sample
	values    []int64
	// ready reports whether a metric depends on the number of ready instances.
	ready bool
	last  []policy.Amount
}

func newObserver(metrics []policy.MetricSpec) *observer {
	o := &observer{metrics: metrics, values: make([]int64, len(metrics)), samples: make([][]policy.Sample, len(metrics))}
	o.ready = slices.ContainsFunc(metrics, func(m policy.MetricSpec) bool { return m.Target.ValueMilli != nil })
	return o
}

const replayed = "recorded as missing"

// observe returns the observation of a tick. inputs contains the reading of each metric of the spec
// except the formula.
func (o *observer) observe(t *Tick, inputs []Reading, now time.Time) policy.Observation {
	if !t.Readable() {
		return policy.Observation{ReadError: "recorded as unreadable"}
	}
	observation := policy.Observation{
		SpecReplicas: t.Replicas, StatusReplicas: t.Observed, PlatformMin: t.PlatformMin, PlatformMax: t.PlatformMax, Command: t.Command,
	}
	if t.Prevented != "" {
		observation.Pauses = []policy.Pause{{Direction: t.Prevented, Message: "the recorded pass could not change the count"}}
	}
	pending := o.fill(t, inputs, now)
	observation.Instances = o.instances
	observation.Metrics = make([]policy.Reading, len(o.metrics))
	for i := range inputs {
		observation.Metrics[i] = o.reading(i, &inputs[i], pending, now)
	}
	return observation
}

func (o *observer) reading(i int, in *Reading, pending int, now time.Time) (reading policy.Reading) {
	if in.Partial {
		reading.Partial = "recorded as partial"
	}
	o.values[i] = in.Milli
	switch metric := &o.metrics[i]; {
	case in.Missing:
		reading.Error = replayed
	case metric.Type == policy.ObjectMetric:
		reading.ValueMilli = &o.values[i]
	case metric.Type == policy.ExternalMetric:
		reading.ValuesMilli = o.values[i : i+1 : i+1]
	case in.Groups == nil:
		reading.Error = "the recording contains no instances"
	default:
		o.samples[i] = appendSamples(o.samples[i][:0], in, pending, len(o.instances), now)
		reading.Samples = o.samples[i]
	}
	return reading
}

// appendSamples appends the samples of a reading. Pending and missing instances have no sample, and
// unready instances of a cpu metric have an old sample. The first ready instance has the whole sum.
func appendSamples(samples []policy.Sample, in *Reading, pending, instances int, now time.Time) []policy.Sample {
	groups, milli := in.Groups, in.Milli
	for i := range instances + groups.Extraneous {
		sample := policy.Sample{At: now}
		switch {
		case i >= pending && i < groups.Unready:
			sample.OK, sample.At = true, now.Add(-time.Hour)
		case i >= groups.Unready+groups.Missing && i < groups.Unready+groups.Missing+groups.Ready, i >= instances:
			sample.OK, sample.Milli, milli = true, milli, 0
		}
		samples = append(samples, sample)
	}
	return samples
}

// fill sets the instances in the order pending, running, ignored. It returns the number of pending
// instances.
func (o *observer) fill(t *Tick, inputs []Reading, now time.Time) (pending int) {
	running, ignored := o.wholeInstances(t), 0
	for i := range inputs {
		if groups := inputs[i].Groups; groups != nil {
			running, ignored = groups.Unready+groups.Missing+groups.Ready, groups.Ignored
		}
	}
	pending = o.pending(inputs)
	running -= pending
	ready, unknown := int(max(t.Ready, 0)), policy.ReadinessUnknown
	deleting := max(ready-running, 0)
	switch {
	case t.Outage:
		deleting = ready
	case ready == 0:
		unknown = policy.ReadinessNotKnown // the platform does not report readiness
	}
	o.instances = o.instances[:0]
	for range pending {
		o.instances = append(o.instances, policy.Instance{Phase: policy.PhasePending, Readiness: unknown})
	}
	for i := range running {
		// A cpu sample of such an instance is usable if it is not older than ReadinessChanged.
		instance := policy.Instance{Phase: policy.PhaseRunning, Readiness: unknown, StartedAt: now.Add(time.Second), ReadinessChanged: now}
		if i >= running-(ready-deleting) {
			instance.Readiness = policy.ReadinessTrue
		}
		o.instances = append(o.instances, instance)
	}
	for i := range max(ignored, deleting) {
		instance := policy.Instance{Phase: policy.PhaseFailed, Readiness: unknown}
		if i < deleting {
			instance = policy.Instance{Phase: policy.PhaseRunning, Readiness: policy.ReadinessTrue, Deleting: true}
		}
		o.instances = append(o.instances, instance)
	}
	for i := range inputs {
		if inputs[i].Requests != nil && inputs[i].Groups != nil {
			o.request(&o.metrics[i], &inputs[i])
		}
	}
	return pending
}

// wholeInstances returns the number of instances if no metric has groups. An empty list means that
// the instances are unknown.
func (o *observer) wholeInstances(t *Tick) int {
	switch {
	case t.Ready < 0:
		return 0
	case o.ready:
		return max(1, int(t.Ready))
	}
	return 1
}

// pending returns the number of pending instances. An unready instance is pending, unless only cpu
// metrics ignore it.
func (o *observer) pending(inputs []Reading) int {
	least := -1
	for i := range inputs {
		if groups := inputs[i].Groups; groups != nil && !isCPU(&o.metrics[i]) && (least < 0 || groups.Unready < least) {
			least = groups.Unready
		}
	}
	return max(least, 0)
}

func isCPU(metric *policy.MetricSpec) bool {
	return metric.Name == "cpu" && (metric.Type == policy.ResourceMetric || metric.Type == policy.ContainerResourceMetric)
}

// request divides the requests of each group among its instances.
func (o *observer) request(metric *policy.MetricSpec, in *Reading) {
	g, r := in.Groups, in.Requests
	left := [...]int64{r.Unready, r.Missing, r.Ready, 0}
	count := [...]int64{int64(g.Unready), int64(g.Missing), int64(g.Ready), math.MaxInt32}
	group := 0
	for i := range o.instances {
		for count[group] == 0 {
			group++
		}
		share := left[group] / count[group]
		left[group] -= share
		count[group]--
		instance := &o.instances[i]
		if metric.Type == policy.ContainerResourceMetric {
			instance.Tasks = append(slices.Clip(instance.Tasks), policy.Task{Name: metric.Task, Requests: o.amounts(nil, metric.Name, share)})
			continue
		}
		instance.Requests = o.amounts(instance.Requests, metric.Name, share)
		if !ownRequest(metric.Name) {
			instance.Requests = append(slices.Clip(instance.Requests), policy.Amount{Resource: "hugepages-none"})
		}
	}
}

// ownRequest reports whether such a request of an instance is sufficient for the policy to use the
// requests of the instance instead of the requests of its tasks (R29).
func ownRequest(resource string) bool {
	return resource == "cpu" || resource == "memory" || strings.HasPrefix(resource, "hugepages-")
}

// amounts returns the list with another amount. It stores the list with one amount that it returned
// last, because most instances have the same requests.
func (o *observer) amounts(list []policy.Amount, resource string, milli int64) []policy.Amount {
	amount := policy.Amount{Resource: resource, Milli: milli}
	if len(list) > 0 {
		return append(slices.Clip(list), amount)
	}
	if len(o.last) == 0 || o.last[0] != amount {
		o.last = []policy.Amount{amount}
	}
	return o.last
}
