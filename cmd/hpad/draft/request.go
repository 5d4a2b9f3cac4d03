package draft

import (
	"fmt"
	"strings"

	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/explain"
	"github.com/hpad/hpad/daemon/kinds"
)

// Request describes an autoscaler as given by command-line flags.
type Request struct {
	Name     string
	Min, Max int32
	// CPU and Memory are target utilizations, as percentages of the requests. 0 means no target. If
	// both are 0, the target for cpu is 80 percent.
	CPU, Memory int32
}

// NameOf returns the default name of an autoscaler for a target.
func NameOf(target config.Reference) string {
	short := kinds.Fleets[target.Kind].Reference.Short(target.Keys)
	return strings.ReplaceAll(config.AdaptName(short), ".", "-")
}

// Draft returns the autoscaler for a target. If the target's fleet does not measure resources, the
// user must still choose the source and the query of each metric, and the draft contains notes
// about this.
func (r *Request) Draft(target config.Reference) *Autoscaler {
	a := &Autoscaler{
		Name:        r.Name,
		Notes:       []string{fmt.Sprintf("Written by \"hpad autoscale\"; \"hpad delete %s\" removes it.", r.Name)},
		Target:      Target{Fleet: target.Ref.Fleet},
		MinReplicas: &r.Min,
		MaxReplicas: r.Max,
	}
	for _, key := range target.Keys {
		a.Target.Keys = append(a.Target.Keys, Key(key))
	}
	cpu := r.CPU
	switch none := r.CPU == 0 && r.Memory == 0; {
	case none && target.Samples:
		a.Notes = append(a.Notes, "No metrics: the default is cpu at 80% of the requests.")
	case none:
		cpu = 80
	}
	for _, metricTarget := range []struct {
		resource string
		percent  int32
	}{{"cpu", cpu}, {"memory", r.Memory}} {
		if metricTarget.percent == 0 {
			continue
		}
		metric := Metric{Type: "Resource", Resource: metricTarget.resource, AverageUtilization: &metricTarget.percent}
		if !target.Samples {
			metric.SuggestSource("", target.Kind, "")
		}
		a.Metrics = append(a.Metrics, metric)
	}
	return a
}

// Summary describes the autoscaler for a target on one line.
func (r *Request) Summary(target config.Reference) string {
	var targets []string
	if r.CPU > 0 {
		targets = append(targets, fmt.Sprintf("cpu at %d%%", r.CPU))
	}
	if r.Memory > 0 {
		targets = append(targets, fmt.Sprintf("memory at %d%%", r.Memory))
	}
	if len(targets) == 0 {
		targets = []string{"cpu at 80% (default)"}
	}
	return fmt.Sprintf("%s, %d to %s, %s", target.Ref, r.Min, explain.Replicas(r.Max), strings.Join(targets, ", "))
}
