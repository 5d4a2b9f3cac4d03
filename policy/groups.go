package policy

import "time"

// group is one of the four groups of R27.
type group uint8

const (
	ready group = iota
	unready
	missing
	ignored
)

// grouping is what telling the groups apart needs besides the instance.
type grouping struct {
	// cpu selects step 4 of R27.
	cpu bool
	// initialized is now less the CPU initialization period: an instance that
	// started after it is still in its initialization period.
	initialized time.Time
	// initializedSecond is that in whole seconds since the epoch: comparing whole
	// numbers first spares most instances the comparison of times.
	initializedSecond int64
	delay             time.Duration
}

func groupingFor(settings *Settings, metric *MetricSpec, now time.Time) grouping {
	initialized := now.Add(-settings.CPUInitializationPeriod)
	return grouping{
		cpu:               metric.Name == "cpu" && (metric.Type == ResourceMetric || metric.Type == ContainerResourceMetric),
		initialized:       initialized,
		initializedSecond: initialized.Unix(),
		delay:             settings.InitialReadinessDelay,
	}
}

// groupOf is the group of an instance by the steps of R27 that hold for every
// metric; sample is nil where it has none.
func groupOf(instance *Instance, sample *Sample) group {
	switch {
	case instance.Deleting || instance.Phase == PhaseFailed:
		return ignored
	case instance.Phase == PhasePending:
		return unready
	case sample == nil:
		return missing
	}
	return ready
}

// cpuUnready is step 4 of R27: a cpu sample of an instance that is starting
// says little about its load.
func (g *grouping) cpuUnready(instance *Instance, sample *Sample) bool {
	if instance.Readiness == ReadinessNotKnown || instance.StartedAt.IsZero() {
		return true
	}
	if instance.StartedAt.Unix() >= g.initializedSecond && instance.StartedAt.After(g.initialized) {
		return instance.Readiness == ReadinessFalse ||
			sample.At.Before(instance.ReadinessChanged.Add(sample.Window))
	}
	return instance.Readiness == ReadinessFalse &&
		instance.StartedAt.Add(g.delay).After(instance.ReadinessChanged)
}
