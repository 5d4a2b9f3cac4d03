package draft

import (
	"fmt"
	"strings"

	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/explain"
	"github.com/hpad/hpad/daemon/kinds"
)

// Wish is an autoscaler as a few words on the command line describe it.
type Wish struct {
	Name     string
	Min, Max int32
	// CPU and Memory are goals in percent of what instances request; 0 is none. Without
	// either it is cpu at 80 percent.
	CPU, Memory int32
}

// NameOf returns the name of an autoscaler whose target is given and nothing else.
func NameOf(target config.Reference) string {
	short := kinds.Fleets[target.Kind].Reference.Short(target.Keys)
	return strings.ReplaceAll(config.AdaptName(short), ".", "-")
}

// wishNotes returns what may be written above a wished autoscaler: where it is from,
// and then what it means that it has no metrics.
func wishNotes(name string) []string {
	return []string{
		fmt.Sprintf("Written by \"hpad autoscale\"; \"hpad delete %s\" removes it.", name),
		"No metrics are named: cpu at 80 % of what instances request.",
	}
}

// Draft returns the autoscaler of a target. Where the target's fleet cannot measure
// the use of resources, there are decisions left.
func (w *Wish) Draft(target config.Reference) *Autoscaler {
	a := &Autoscaler{
		Name:        w.Name,
		Notes:       wishNotes(w.Name)[:1],
		Target:      Target{Fleet: target.Ref.Fleet},
		MinReplicas: &w.Min,
		MaxReplicas: w.Max,
	}
	for _, key := range target.Keys {
		a.Target.Keys = append(a.Target.Keys, Key(key))
	}
	cpu := w.CPU
	switch none := w.CPU == 0 && w.Memory == 0; {
	case none && target.Samples:
		a.Notes = wishNotes(w.Name)
	case none:
		cpu = 80
	}
	for _, goal := range []struct {
		resource string
		percent  int32
	}{{"cpu", cpu}, {"memory", w.Memory}} {
		if goal.percent == 0 {
			continue
		}
		metric := Metric{Type: "Resource", Resource: goal.resource, AverageUtilization: &goal.percent}
		if !target.Samples {
			metric.AskSource("", target.Kind, "")
		}
		a.Metrics = append(a.Metrics, metric)
	}
	return a
}

// Summary returns the autoscaler of a target in one line.
func (w *Wish) Summary(target config.Reference) string {
	var goals []string
	if w.CPU > 0 {
		goals = append(goals, fmt.Sprintf("cpu at %d%%", w.CPU))
	}
	if w.Memory > 0 {
		goals = append(goals, fmt.Sprintf("memory at %d%%", w.Memory))
	}
	if len(goals) == 0 {
		goals = []string{"cpu at 80%, the default where no metric is named"}
	}
	return fmt.Sprintf("%s, %d to %s, %s", target.Ref, w.Min, explain.Replicas(w.Max), strings.Join(goals, ", "))
}
