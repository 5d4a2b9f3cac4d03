package show

import (
	"io"
	"iter"
	"slices"
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
			view.Name, view.Reference, explain.TargetsText(view.Spec.Metrics, view.Status.Metrics), minText(view.Spec),
			strconv.Itoa(int(view.Spec.MaxReplicas)), explain.ReplicasText(view), age(view.Created, now),
		}
		if wide {
			cells = append(cells, ago(view.Evaluation.Last, now), conditionsText(view.Status.Conditions))
		}
		problem := explain.Problem(view, now)
		withProblems = withProblems || problem != ""
		rows, problems = append(rows, cells), append(problems, problem)
		changing = append(changing, isChanging(view.Status))
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

// isChanging reports whether the count is to be another one, as far as that is known.
func isChanging(status policy.Status) bool {
	unknown := func(c policy.Condition) bool {
		return c.Status == policy.ConditionFalse && (c.Type == policy.AbleToScale || c.Type == policy.ScalingActive)
	}
	return status.CurrentReplicas != status.DesiredReplicas && !slices.ContainsFunc(status.Conditions, unknown)
}

// Look returns what a watcher sees of an autoscaler: it is another one when something but
// time has passed.
func Look(view api.Autoscaler) string {
	return strings.Join([]string{
		view.Reference, explain.TargetsText(view.Spec.Metrics, view.Status.Metrics), minText(view.Spec),
		strconv.Itoa(int(view.Spec.MaxReplicas)), explain.ReplicasText(view), explain.Problem(view, view.Evaluation.Last),
	}, "\n")
}

func minText(spec policy.Spec) string {
	if spec.MinReplicas == nil {
		return unset
	}
	return strconv.Itoa(int(*spec.MinReplicas))
}

// conditionsText writes the conditions that bear on the count now: what stops
// the autoscaler, what limits it, and what the platform says besides.
func conditionsText(conditions []policy.Condition) string {
	var said []string
	for _, condition := range conditions {
		if api.Bears(condition) {
			said = append(said, string(condition.Type)+": "+condition.Reason)
		}
	}
	return orNone(strings.Join(said, ", "))
}
