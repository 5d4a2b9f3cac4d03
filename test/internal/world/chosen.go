package world

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hpad/hpad/targets/drain"
	"github.com/hpad/hpad/test/wait"
)

// Chosen tests the selection of the instances to remove. It uses one target for each removal order
// that depends on the platform or on metrics. Each target has five instances and shrinks to three.
type Chosen struct {
	// Fleet is the configuration of the fleet. Target returns the TOML of a target.
	Fleet  string
	Target func(name string) string
	// Make creates a target with five running instances, each an hour younger than the previous
	// one. The instances at the indexes in unhealthy are unhealthy. The instance at the index
	// protected has scale-in protection, unless the index is negative. Make returns the IDs or
	// names of the instances in order.
	Make func(name string, unhealthy []int, protected int) []string
	// Match is the instance field whose values Make returns: "id" or "name".
	Match string
	// Protects is true if the platform supports scale-in protection for single instances.
	Protects bool
	// Stay returns the instances of a target that are not being removed. Count returns the
	// target's desired count. Writes returns the number of changes sent to the platform.
	Stay   func(name string) []string
	Count  func(name string) int
	Writes func() int
}

// choice is a removal order with its expected result.
type choice struct {
	order     drain.Order
	unhealthy []int
	cpu       []float64
	// protected is the index of the instance that would be removed first without protection.
	// victims are the indexes of the removed instances with protection, and unguarded the indexes
	// without protection.
	protected          int
	victims, unguarded []int
}

func choices() []choice {
	return []choice{
		{order: drain.Oldest, protected: 0, victims: []int{1, 2}, unguarded: []int{0, 1}},
		{order: drain.Newest, protected: 4, victims: []int{3, 2}, unguarded: []int{4, 3}},
		{order: drain.UnhealthyFirst, unhealthy: []int{1, 3, 4}, protected: 1, victims: []int{3, 4}, unguarded: []int{1, 3}},
		{order: drain.LeastCPU, cpu: []float64{0.5, 0.2, 0.4, 0.3, 0.1}, protected: 4, victims: []int{1, 3}, unguarded: []int{4, 1}},
	}
}

func (c choice) name() string { return "by-" + string(c.order) }

// text returns the configuration of the autoscaler.
func (c choice) text(target, match string) string {
	text := strings.Replace(Queued(c.name(), target, 1, 10), "min_replicas", fmt.Sprintf("victims = %q\nmin_replicas", c.order), 1)
	if c.cpu == nil {
		return text
	}
	return text + fmt.Sprintf(`
[[autoscalers.%[1]s.metrics]]
type           = "Resource"
resource       = "cpu"
source         = "prom"
query          = 'sum by (instance_of) (chosen_cpu{target=%[1]q})'
instance_label = "instance_of"
match          = %[2]q
window         = "1s"
average_value  = "1"
`, c.name(), match)
}

// Run checks that a dry run reports the expected victims without removing them, that hpad then
// removes exactly these, and that the history contains them.
func (s Chosen) Run(t *testing.T, l *Load) {
	var configured strings.Builder
	configured.WriteString(s.Fleet + l.Source())
	instances, want := map[string][]string{}, map[string][]string{}
	for _, c := range choices() {
		protected, victims := c.protected, c.victims
		if !s.Protects {
			protected, victims = -1, c.unguarded
		}
		all := s.Make(c.name(), c.unhealthy, protected)
		for at, use := range c.cpu {
			l.Set(fmt.Sprintf("chosen_cpu{target=%q,instance_of=%q}", c.name(), all[at]), use)
		}
		for _, at := range victims {
			want[c.name()] = append(want[c.name()], all[at])
		}
		instances[c.name()] = all
		l.Queue(c.name(), 30)
		configured.WriteString(c.text(s.Target(c.name()), s.Match))
	}
	text := configured.String()
	w := NewDryRun(t, text)
	for _, c := range choices() {
		s.awaitVictims(t, w, c, want[c.name()])
	}
	w.Passes(choices()[0].name(), 2)
	for name, all := range instances {
		if stay := s.Stay(name); len(stay) != len(all) || s.Writes() != 0 {
			t.Errorf("got %d instances of %s and %d changes in a dry run, want %d and 0", len(stay), name, s.Writes(), len(all))
		}
	}
	w.Restart(text)
	for _, c := range choices() {
		s.awaitRemoval(t, w, c, instances[c.name()], want[c.name()])
	}
}

// names returns the IDs or names of victims, depending on Match.
func (s Chosen) names(victims []drain.Victim) []string {
	var names []string
	for _, v := range victims {
		if s.Match == "name" && v.Name != "" {
			names = append(names, v.Name)
		} else {
			names = append(names, v.ID)
		}
	}
	return names
}

// awaitVictims waits until the dry run reports the victims.
func (s Chosen) awaitVictims(t *testing.T, w *World, c choice, want []string) {
	t.Helper()
	wait.For(t, Patience, fmt.Sprintf("victims %v of %s in a dry run", want, c.name()), func() (string, bool) {
		view := w.View(c.name())
		got := s.names(view.Victims)
		return fmt.Sprintf("victims are %v (%s) with a desired count of %d", got, view.VictimsError, view.Status.DesiredReplicas), slices.Equal(got, want)
	})
}

// awaitRemoval waits until exactly the victims are removed and recorded in the history.
func (s Chosen) awaitRemoval(t *testing.T, w *World, c choice, all, want []string) {
	t.Helper()
	left := slices.DeleteFunc(slices.Clone(all), func(name string) bool { return slices.Contains(want, name) })
	slices.Sort(left)
	wait.For(t, Patience, fmt.Sprintf("three instances of %s", c.name()), func() (string, bool) {
		got := s.Stay(c.name())
		return fmt.Sprintf("instances are %v", got), len(got) == len(left)
	})
	if got := slices.Sorted(slices.Values(s.Stay(c.name()))); !slices.Equal(got, left) || s.Count(c.name()) != len(left) {
		t.Errorf("got instances %v of %s and count %d, want %v", got, c.name(), s.Count(c.name()), left)
	}
	var recorded []string
	wait.For(t, Patience, "history entry with victims of "+c.name(), func() (string, bool) {
		history, err := w.History(t.Context(), c.name(), time.Time{}, time.Now().Add(time.Hour), 100)
		for _, entry := range history {
			// Written is nil if the response to the write was late.
			if !entry.DryRun && len(entry.Victims) > 0 && entry.Decision.DesiredReplicas == int32(len(left)) {
				recorded = s.names(entry.Victims)
				return "", true
			}
		}
		return fmt.Sprintf("%d entries, %v", len(history), err), false
	})
	if !slices.Equal(recorded, want) {
		t.Errorf("victims of %[1]s in the history = %[2]v, want %[3]v", c.name(), recorded, want)
	}
}
