package show

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/explain"
)

// orders compare two autoscalers by what a column shows.
var orders = map[string]func(a, b api.Autoscaler, now time.Time) int{
	"name":      func(a, b api.Autoscaler, _ time.Time) int { return strings.Compare(a.Name, b.Name) },
	"reference": func(a, b api.Autoscaler, _ time.Time) int { return strings.Compare(a.Reference, b.Reference) },
	"min":       func(a, b api.Autoscaler, _ time.Time) int { return cmp.Compare(leastOf(a), leastOf(b)) },
	"max":       func(a, b api.Autoscaler, _ time.Time) int { return cmp.Compare(a.Spec.MaxReplicas, b.Spec.MaxReplicas) },
	"replicas": func(a, b api.Autoscaler, _ time.Time) int {
		return cmp.Compare(a.Status.CurrentReplicas, b.Status.CurrentReplicas)
	},
	"age": func(a, b api.Autoscaler, _ time.Time) int { return b.Created.Compare(a.Created) },
	"problem": func(a, b api.Autoscaler, now time.Time) int {
		return cmp.Compare(untroubled(a, now), untroubled(b, now))
	},
}

// Orders are the names of the orders that there are, in the order of the columns.
var Orders = []string{"name", "reference", "min", "max", "replicas", "age", "problem"}

// leastOf returns the lower bound, which is 1 where none is set.
func leastOf(view api.Autoscaler) int32 {
	if view.Spec.MinReplicas == nil {
		return 1
	}
	return *view.Spec.MinReplicas
}

// untroubled is 0 for an autoscaler with a problem and 1 without, so that problems come first.
func untroubled(view api.Autoscaler, now time.Time) int {
	if explain.Problem(view, now) == "" {
		return 1
	}
	return 0
}

// Sort sorts autoscalers by one of Orders, the least, the youngest and those with a
// problem first, and by name where that is alike.
func Sort(views []api.Autoscaler, order string, now time.Time) {
	slices.SortFunc(views, func(a, b api.Autoscaler) int {
		return cmp.Or(orders[order](a, b, now), strings.Compare(a.Name, b.Name))
	})
}
