package show

import (
	"io"
	"iter"
	"strings"
	"time"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/explain"
	"github.com/hpad/hpad/policy"
)

// Whole writes a complete table of autoscalers in the format of "kubectl get hpa". If wide is set,
// the table has more columns. Otherwise, it has the column PROBLEM only if an autoscaler has a
// problem.
func (p *Table) Whole(w io.Writer, views iter.Seq[api.Autoscaler], wide bool, now time.Time) error {
	return p.autoscalers(w, views, wide, wide, now)
}

// Autoscalers writes more rows. They always have the column PROBLEM.
func (p *Table) Autoscalers(w io.Writer, views iter.Seq[api.Autoscaler], wide bool, now time.Time) error {
	return p.autoscalers(w, views, wide, true, now)
}

func (p *Table) autoscalers(w io.Writer, views iter.Seq[api.Autoscaler], wide, withProblems bool, now time.Time) error {
	columns := []string{"NAME", "REFERENCE", "TARGETS", "MIN", "MAX", "REPLICAS", "AGE"}
	if wide {
		columns = append(columns, "SCHEDULES", "LAST EVALUATION", "CONDITIONS")
	}
	var rows [][]string
	var problems []string
	for view := range views {
		cells := []string{
			view.Name, view.Reference, explain.TargetsText(view.Spec.Metrics, view.Status.Metrics), minText(view),
			maxText(view), explain.ReplicasText(view), age(view.Created, now),
		}
		if wide {
			cells = append(cells, orNone(explain.SchedulesText(view.Schedules)), ago(view.Evaluation.Last, now), conditionsText(view.Status.Conditions))
		}
		problem := explain.Problem(view, now)
		withProblems = withProblems || problem != ""
		rows, problems = append(rows, cells), append(problems, problem)
	}
	if withProblems {
		columns = append(columns, "PROBLEM")
	}
	for i := range rows {
		if withProblems {
			rows[i] = append(rows[i], orNone(problems[i]))
		}
	}
	return p.write(w, columns, rows)
}

// Row returns the content of an autoscaler's row without ages. A difference means that the row
// changed.
func Row(view api.Autoscaler) string {
	return strings.Join([]string{
		view.Reference, explain.TargetsText(view.Spec.Metrics, view.Status.Metrics), minText(view),
		maxText(view), explain.ReplicasText(view), explain.Problem(view, view.Evaluation.Last),
	}, "\n")
}

func minText(view api.Autoscaler) string {
	if view.Spec.MinReplicas == nil {
		return unset
	}
	return explain.BoundText(*view.Spec.MinReplicas, schedulesOf(view).Min, view.Schedules)
}

func maxText(view api.Autoscaler) string {
	return explain.BoundText(view.Spec.MaxReplicas, schedulesOf(view).Max, view.Schedules)
}

func schedulesOf(view api.Autoscaler) api.Schedules {
	if view.Schedules == nil {
		return api.Schedules{}
	}
	return *view.Schedules
}

// conditionsText formats the conditions that affect the count.
func conditionsText(conditions []policy.Condition) string {
	var texts []string
	for _, condition := range conditions {
		if api.AffectsCount(condition) {
			texts = append(texts, string(condition.Type)+": "+condition.Reason)
		}
	}
	return orNone(strings.Join(texts, ", "))
}
