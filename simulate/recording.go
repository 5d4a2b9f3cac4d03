package simulate

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/schedule"
)

// Origin is the system that a recording is from.
type Origin string

// The origins.
const (
	// FromGraphs is hpad's own graph store.
	FromGraphs Origin = "graphs"
	// FromPrometheus are range queries of the autoscaler's sources.
	FromPrometheus Origin = "prometheus"
	// FromCSV is a file with times and values.
	FromCSV Origin = "csv"
)

// Recording contains the load and the counts of one autoscaler.
type Recording struct {
	// Name is the name of the autoscaler.
	Name   string `json:"name"`
	Origin Origin `json:"origin"`
	// Metrics contains the names of the recorded metrics (see [MetricNames]), in the order of
	// Tick.Readings. Formulas are not recorded.
	Metrics []string `json:"metrics"`
	// CountsUnknown reports whether this autoscaler did not set the counts. Then no simulation follows
	// them, and Tick.Ready is only used for metrics that instances share.
	CountsUnknown bool `json:"counts_unknown,omitempty"`
	// Step is the usual time between two ticks. A longer time than two steps is a hole. The
	// count does not change during a hole.
	Step time.Duration `json:"step"`
	// Ticks are the recorded passes, oldest first. Their times differ.
	Ticks []Tick `json:"ticks"`
	// Startup and Drain are delays from another recording of the autoscaler, see [Recording.SetDelays].
	Startup Delay `json:"startup,omitzero"`
	Drain   Delay `json:"drain,omitzero"`
	// Notes are remarks for users about the recording, such as a change of the target.
	Notes []Note `json:"notes,omitempty"`
}

// Note is a remark about a recording at an instant.
type Note struct {
	Time time.Time `json:"time"`
	Text string    `json:"text"`
}

// Unknown stands for an unknown count.
const Unknown int32 = -1

// Tick is one recorded pass.
type Tick struct {
	// Time is the instant of the pass.
	Time time.Time `json:"time"`
	// Replicas is the target's desired count before the pass, and Desired the result of the pass.
	// Both are Unknown if the target could not be read, or if hpad rejected the reading.
	Replicas int32 `json:"replicas"`
	Desired  int32 `json:"desired"`
	// Reached is the accepted count if the platform could not reach Desired, otherwise nil.
	Reached *int32 `json:"reached,omitempty"`
	// Observed is the number of instances that the platform reported.
	Observed int32 `json:"observed"`
	// Ready is the number of running and ready instances, or Unknown without a list of instances.
	Ready int32 `json:"ready"`
	// Case is the branch that the pass took; empty for policy.CaseMetrics.
	Case policy.Case `json:"case,omitempty"`
	// Prevented is the direction of the changes that a pause, a hold, a dry run or a failed write
	// prevented; empty without such a reason.
	Prevented policy.Direction `json:"prevented,omitempty"`
	// Outage reports whether instances existed, but no instance was ready.
	Outage bool `json:"outage,omitempty"`
	// Command is the count that an operator set in this pass, or nil.
	Command *policy.Command `json:"command,omitempty"`
	// PlatformMin and PlatformMax are the platform's own bounds; nil if the platform has none.
	PlatformMin *int32 `json:"platform_min,omitempty"`
	PlatformMax *int32 `json:"platform_max,omitempty"`
	// Readings contains one reading for each metric of the recording. It is empty if the pass read no
	// metric.
	Readings []Reading `json:"readings,omitempty"`
}

// Readable reports whether the target could be read.
func (t *Tick) Readable() bool { return t.Replicas != Unknown }

// Reading is the recorded value of one metric.
type Reading struct {
	// Missing reports whether the source returned no usable value.
	Missing bool `json:"missing,omitempty"`
	// Partial reports whether the source marked the result as partial.
	Partial bool `json:"partial,omitempty"`
	// Milli is the value in milli-units. For Object and External metrics, it is the value of the
	// whole metric. For other metrics, it is the sum over the samples of ready and unknown instances.
	Milli int64 `json:"milli"`
	// Groups are the groups of the instances (R27); nil for Object and External metrics.
	Groups *policy.Groups `json:"groups,omitempty"`
	// Requests are the summed requests of each group; nil if the metric has no utilization.
	// MissingFill is not used.
	Requests *policy.Requests `json:"requests,omitempty"`
}

// Policy is one configuration to simulate.
type Policy struct {
	// Label identifies the policy in results, for example "max_replicas=30".
	Label    string          `json:"label"`
	Settings policy.Settings `json:"settings"`
	// Spec is defaulted and valid. Its formulas need not be compiled.
	Spec policy.Spec `json:"spec"`
	// Queries contains the query of each metric of the spec, or an empty string. The default of a
	// demand model depends on it.
	Queries   []string          `json:"queries,omitempty"`
	Schedules []schedule.Config `json:"schedules,omitempty"`
	// RestoreForeign reports whether the policy reverts manual changes.
	RestoreForeign bool          `json:"restore_foreign,omitempty"`
	SyncPeriod     time.Duration `json:"sync_period"`
}

// MetricNames returns a unique name for each metric of a spec.
func MetricNames(metrics []policy.MetricSpec) []string {
	names := make([]string, 0, len(metrics))
	for i := range metrics {
		m := &metrics[i]
		name := m.Name
		if of := cmp.Or(m.Task, m.Object); of != "" {
			name += " of " + of
		}
		for n, alone := 2, name; slices.Contains(names, name); n++ {
			name = fmt.Sprintf("%s (%d)", alone, n)
		}
		names = append(names, name)
	}
	return names
}

// Model derives the value of a metric at another count from the recorded value.
type Model string

// The models.
const (
	// Total is a value of the whole load, which does not depend on the count.
	Total Model = "total"
	// Ratio is a value that ready instances share, such as a utilization.
	Ratio Model = "ratio"
	// Queue is a length that grows while capacity is missing.
	Queue Model = "queue"
	// Fixed is a metric that does not depend on the load. Its recorded value is used.
	Fixed Model = "fixed"
)

// Assumptions are the properties of the load and the target that a policy does not determine.
type Assumptions struct {
	// Metrics contains the models of metrics by name. Other metrics have a default model.
	Metrics map[string]Assumption `json:"metrics,omitempty"`
	// Startup is the time from a scale-up until new instances are ready, and Drain the time from a
	// scale-down until removed instances stop. Nil is the median of the recording.
	Startup *time.Duration `json:"startup,omitempty"`
	Drain   *time.Duration `json:"drain,omitempty"`
	// Price is the cost of one instance for one hour; 0 if unknown.
	Price float64 `json:"price,omitempty"`
}
