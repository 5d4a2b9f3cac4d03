package daemon

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/hpad/hpad/daemon/adapters"
	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/drain"
)

// generation is the autoscalers and adapters of one configuration. A reload builds the next
// generation with those that are unchanged, and swaps it in. It is immutable, except for
// rosters, which the scheduler owns.
type generation struct {
	adapters.Set
	config      *config.Config
	autoscalers map[string]*autoscaler
	// names are the names of the autoscalers in order.
	names []string
	// periods has the autoscalers of each sync period, by name.
	periods map[time.Duration][]*autoscaler
	rosters map[string]*roster
	// longestMemory is the longest window or period of any autoscaler.
	longestMemory time.Duration
}

// newGeneration returns a generation without autoscalers.
func newGeneration(c *config.Config, set adapters.Set) *generation {
	return &generation{
		Set: set, config: c,
		names:       slices.Sorted(maps.Keys(c.Autoscalers)),
		autoscalers: map[string]*autoscaler{},
		periods:     map[time.Duration][]*autoscaler{},
		rosters:     map[string]*roster{},
	}
}

// add adds an autoscaler with its definition.
func (g *generation) add(a *autoscaler, def *definition) {
	g.autoscalers[def.Name] = a
	g.longestMemory = max(g.longestMemory, def.longestMemory())
	g.periods[def.SyncPeriod] = append(g.periods[def.SyncPeriod], a)
}

// configureScaleIn configures in each fleet how instances of its targets are removed.
func (g *generation) configureScaleIn() {
	options := map[*adapters.Fleet]map[targets.Ref]drain.Options{}
	for _, a := range g.autoscalers {
		def := a.definition.Load()
		if def.fleet.ScaleIn == nil {
			continue
		}
		if options[def.fleet] == nil {
			options[def.fleet] = map[targets.Ref]drain.Options{}
		}
		options[def.fleet][def.Target] = def.scaleInOptions(&a.cpuUse)
	}
	for _, h := range g.Fleets {
		if h.ScaleIn != nil {
			h.ScaleIn.Configure(options[h])
		}
	}
}

// maxRosters is the number of rosters that a generation caches.
const maxRosters = 16

// rosterFor returns the autoscalers that have one of the periods.
func (g *generation) rosterFor(periods []time.Duration) *roster {
	var key strings.Builder
	var all []*autoscaler
	for _, period := range periods {
		key.WriteString(period.String() + " ")
	}
	if r, ok := g.rosters[key.String()]; ok {
		return r
	}
	for _, period := range periods {
		all = append(all, g.periods[period]...)
	}
	r := newRoster(all)
	if len(g.rosters) >= maxRosters {
		clear(g.rosters)
	}
	g.rosters[key.String()] = r
	return r
}

// has reports whether the autoscaler or the fleet of a scope exists.
func (g *generation) has(scope policy.Scope) bool {
	return (scope.Autoscaler == "" || g.autoscalers[scope.Autoscaler] != nil) && (scope.Fleet == "" || g.Fleets[scope.Fleet] != nil)
}
