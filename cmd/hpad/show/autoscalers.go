package show

import (
	"fmt"
	"io"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/explain"
	"github.com/hpad/hpad/policy"
)

// Autoscalers writes a table of autoscalers as "kubectl get hpa" does. Wide adds columns; a
// narrow table gets PROBLEM only when there is one. Of each it keeps the cells alone.
func Autoscalers(w io.Writer, views iter.Seq[api.Autoscaler], wide bool, now time.Time) error {
	return new(Pieces).Whole(w, views, wide, now)
}

// Whole writes autoscalers as a table that nothing follows.
func (p *Pieces) Whole(w io.Writer, views iter.Seq[api.Autoscaler], wide bool, now time.Time) error {
	return p.autoscalers(w, views, wide, wide, now)
}

// Autoscalers writes autoscalers as a piece, which always has PROBLEM.
func (p *Pieces) Autoscalers(w io.Writer, views iter.Seq[api.Autoscaler], wide bool, now time.Time) error {
	return p.autoscalers(w, views, wide, true, now)
}

func (p *Pieces) autoscalers(w io.Writer, views iter.Seq[api.Autoscaler], wide, withProblems bool, now time.Time) error {
	columns := []string{"NAME", "REFERENCE", "TARGETS", "MIN", "MAX", "REPLICAS", "AGE"}
	if wide {
		columns = append(columns, "LAST EVALUATION", "CONDITIONS")
	}
	var rows [][]string
	var problems []string
	var changing []bool
	for view := range views {
		cells := []string{
			view.Name, view.Reference, targetsText(view.Spec.Metrics, view.Status.Metrics), minText(view.Spec),
			strconv.Itoa(int(view.Spec.MaxReplicas)), replicasText(view), age(view.Created, now),
		}
		if wide {
			cells = append(cells, ago(view.Evaluation.Last, now), conditionsText(view.Status.Conditions))
		}
		problem := problem(view, now)
		withProblems = withProblems || problem != ""
		rows, problems = append(rows, cells), append(problems, problem)
		changing = append(changing, view.Status.CurrentReplicas != view.Status.DesiredReplicas)
	}
	if withProblems {
		columns = append(columns, "PROBLEM")
	}
	for i := range rows {
		if withProblems {
			rows[i] = append(rows[i], orNone(problems[i]))
		}
	}
	return p.writeColoured(w, columns, rows, func(row, column int) colour {
		switch name := columns[column]; {
		case name == "PROBLEM" && problems[row] != "":
			return trouble
		case name == "REPLICAS" && changing[row]:
			return change
		}
		return ""
	})
}

// Look returns what a watcher sees of an autoscaler: it is another one when something but
// time has passed.
func Look(view api.Autoscaler) string {
	return strings.Join([]string{
		view.Reference, targetsText(view.Spec.Metrics, view.Status.Metrics), minText(view.Spec),
		strconv.Itoa(int(view.Spec.MaxReplicas)), replicasText(view), problem(view, view.Evaluation.Last),
	}, "\n")
}

// replicasText writes the count before the last pass's write. A 0 of a target that
// cannot be read is no count.
func replicasText(view api.Autoscaler) string {
	if d := view.Decision; d != nil && d.Case == policy.CaseUnreadable && view.Status.CurrentReplicas == 0 {
		return unknown
	}
	return strconv.Itoa(int(view.Status.CurrentReplicas))
}

func minText(spec policy.Spec) string {
	if spec.MinReplicas == nil {
		return unset
	}
	return strconv.Itoa(int(*spec.MinReplicas))
}

// maxTargets is how many metrics the column TARGETS shows.
const maxTargets = 2

func targetsText(specs []policy.MetricSpec, statuses []policy.MetricStatus) string {
	if len(specs) == 0 {
		return none
	}
	var shown []string
	for i, spec := range specs[:min(len(specs), maxTargets)] {
		var status policy.MetricStatus
		if i < len(statuses) {
			status = statuses[i]
		}
		shown = append(shown, targetText(spec, status))
	}
	text := strings.Join(shown, ", ")
	if more := len(specs) - maxTargets; more > 0 {
		text += fmt.Sprintf(" + %d more...", more)
	}
	return text
}

// targetText writes one metric's current value and goal. Only resources are
// named, and only the others mark an average.
func targetText(spec policy.MetricSpec, status policy.MetricStatus) string {
	goal := goalType(spec)
	text := explain.CurrentText(status, goal) + "/" + explain.GoalText(spec, goal)
	switch {
	case spec.Type == policy.ResourceMetric || spec.Type == policy.ContainerResourceMetric:
		return spec.Name + ": " + text
	case spec.Type != policy.InstancesMetric && goal == policy.AverageValueTarget:
		return text + " (avg)"
	default:
		return text
	}
}

// goalType returns which field of a metric's target kubectl shows: the average
// value where there is one, else the utilization of a resource, else the value.
func goalType(spec policy.MetricSpec) policy.TargetType {
	switch {
	case spec.Type == policy.ObjectMetric && spec.Target.Type == policy.ValueTarget && spec.Target.ValueMilli != nil:
		// With both fields given it is the word that decides (R40).
		return policy.ValueTarget
	case spec.Target.AverageValueMilli != nil || spec.Type == policy.InstancesMetric:
		return policy.AverageValueTarget
	case spec.Type == policy.ResourceMetric || spec.Type == policy.ContainerResourceMetric:
		return policy.UtilizationTarget
	default:
		return policy.ValueTarget
	}
}

// conditionsText writes the conditions that bear on the count now: what stops
// the autoscaler, what limits it, and what the platform says besides.
func conditionsText(conditions []policy.Condition) string {
	var said []string
	for _, condition := range conditions {
		worth := condition.Status == policy.ConditionTrue
		switch condition.Type {
		case policy.ScalingActive:
			worth = !worth
		case policy.AbleToScale:
			worth = !worth || condition.Reason == "ScaleDownStabilized" || condition.Reason == "ScaleUpStabilized"
		}
		if worth {
			said = append(said, string(condition.Type)+": "+condition.Reason)
		}
	}
	return orNone(strings.Join(said, ", "))
}
