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

var groupNames = [...]string{ready: "ready", unready: "unready", missing: "missing", ignored: "ignored"}

type grouping struct {
	// cpu enables step 4 of R27.
	cpu bool
	// initialized is the latest start time of an instance whose initialization period is over.
	initialized time.Time
	delay       time.Duration
}

func groupingFor(settings *Settings, metric *MetricSpec, now time.Time) grouping {
	return grouping{
		cpu:         metric.Name == "cpu" && (metric.Type == ResourceMetric || metric.Type == ContainerResourceMetric),
		initialized: now.Add(-settings.CPUInitializationPeriod),
		delay:       settings.InitialReadinessDelay,
	}
}

// of returns the group of an instance (R27). sample is nil if there is none.
func (g *grouping) of(instance *Instance, sample *Sample) group {
	group := groupOf(instance, sample)
	if group == ready && g.cpu && g.cpuUnready(instance, sample) {
		return unready
	}
	return group
}

// sampleOf returns the usable sample of an instance; nil if there is none.
func sampleOf(samples []Sample, i int) *Sample {
	if i < len(samples) && samples[i].OK {
		return &samples[i]
	}
	return nil
}

// groupOf applies the steps of R27 for all metrics.
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

// cpuUnready is step 4 of R27: a cpu sample of a starting instance does not show its load.
func (g *grouping) cpuUnready(instance *Instance, sample *Sample) bool {
	if instance.Readiness == ReadinessNotKnown || instance.StartedAt.IsZero() {
		return true
	}
	if instance.StartedAt.After(g.initialized) {
		return instance.Readiness == ReadinessFalse ||
			sample.At.Before(instance.ReadinessChanged.Add(sample.Window))
	}
	return instance.Readiness == ReadinessFalse &&
		instance.StartedAt.Add(g.delay).After(instance.ReadinessChanged)
}
