package show

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/explain"
)

// orders maps the name of a column to a function that compares two autoscalers by it.
var orders = map[string]func(a, b api.Autoscaler, now time.Time) int{
	"name":      func(a, b api.Autoscaler, _ time.Time) int { return strings.Compare(a.Name, b.Name) },
	"reference": func(a, b api.Autoscaler, _ time.Time) int { return strings.Compare(a.Reference, b.Reference) },
	"min":       func(a, b api.Autoscaler, _ time.Time) int { return cmp.Compare(minOf(a), minOf(b)) },
	"max":       func(a, b api.Autoscaler, _ time.Time) int { return cmp.Compare(a.Spec.MaxReplicas, b.Spec.MaxReplicas) },
	"replicas": func(a, b api.Autoscaler, _ time.Time) int {
		return cmp.Compare(a.Status.CurrentReplicas, b.Status.CurrentReplicas)
	},
	"age": func(a, b api.Autoscaler, _ time.Time) int { return b.Created.Compare(a.Created) },
	"problem": func(a, b api.Autoscaler, now time.Time) int {
		return cmp.Compare(problemOrder(a, now), problemOrder(b, now))
	},
}

// Orders lists the names of all sort orders in the order of the columns.
var Orders = []string{"name", "reference", "min", "max", "replicas", "age", "problem"}

// minOf returns the lower bound, which is 1 by default.
func minOf(view api.Autoscaler) int32 {
	if view.Spec.MinReplicas == nil {
		return 1
	}
	return *view.Spec.MinReplicas
}

// problemOrder returns 0 for an autoscaler with a problem, and 1 for any other.
func problemOrder(view api.Autoscaler, now time.Time) int {
	if explain.Problem(view, now) == "" {
		return 1
	}
	return 0
}

// Sort sorts autoscalers by one of Orders and then by name. The lowest values, the youngest
// autoscalers, and the autoscalers with a problem come first.
func Sort(views []api.Autoscaler, order string, now time.Time) {
	slices.SortFunc(views, func(a, b api.Autoscaler) int {
		return cmp.Or(orders[order](a, b, now), strings.Compare(a.Name, b.Name))
	})
}
