package cluster

import (
	"iter"
	"slices"
	"strings"

	"github.com/hpad/hpad/daemon/api"
)

// autoscalers returns the autoscalers of this member's daemons, sorted by name.
func (c *Cluster) autoscalers() iter.Seq[api.Autoscaler] {
	var sequences []iter.Seq[api.Autoscaler]
	for _, d := range c.daemons() {
		sequences = append(sequences, d.AutoscalersAfter(""))
	}
	return merge(sequences)
}

// merge merges sequences of autoscalers by name. Of several autoscalers with the same name, as
// of members whose hosts have a fleet of the same name, the first one counts.
func merge(sequences []iter.Seq[api.Autoscaler]) iter.Seq[api.Autoscaler] {
	if len(sequences) == 1 {
		return sequences[0]
	}
	return func(yield func(api.Autoscaler) bool) {
		type head struct {
			a    api.Autoscaler
			next func() (api.Autoscaler, bool)
		}
		var heads []*head
		for _, sequence := range sequences {
			next, stop := iter.Pull(sequence)
			defer stop()
			if a, ok := next(); ok {
				heads = append(heads, &head{a, next})
			}
		}
		last := ""
		for len(heads) > 0 {
			first := slices.MinFunc(heads, func(x, y *head) int { return strings.Compare(x.a.Name, y.a.Name) })
			if first.a.Name != last || last == "" {
				if last = first.a.Name; !yield(first.a) {
					return
				}
			}
			var more bool
			if first.a, more = first.next(); !more {
				heads = slices.DeleteFunc(heads, func(h *head) bool { return h == first })
			}
		}
	}
}
