package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hpad/hpad/targets/drain"
)

// readVictims validates the order in which a scale-down removes instances.
func (t *table) readVictims(given drain.Order, a *Autoscaler) {
	a.Victims = given
	if given == "" {
		return
	}
	if !slices.Contains(drain.Orders(), given) {
		var names []string
		for _, order := range drain.Orders() {
			names = append(names, fmt.Sprintf("%q", order))
		}
		t.addWritten("victims", "must be one of "+strings.Join(names, ", "))
		return
	}
	t.checkRemoves("victims", a)
}

// checkRemoves records a key that requires a fleet that removes instances by name.
func (t *table) checkRemoves(key string, a *Autoscaler) {
	if name, kind, ok := t.loader.kindOfFleet(a.Target.Fleet); ok && !kind.Removes {
		t.add(key, "", fmt.Sprintf("is not allowed for a fleet of kind %q: its platform chooses the instances to remove", name))
	}
}
