package round

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

// Generation contains the autoscalers and adapters of one configuration. A reload builds the next
// generation, which reuses unchanged autoscalers and adapters, and activates it. A generation is
// immutable, except for sets, which the scheduler owns.
type Generation struct {
	adapters.Set
	Config      *config.Config
	Autoscalers map[string]*Autoscaler
	// Names lists the names of the autoscalers in order.
	Names []string
	// periods maps sync periods to autoscalers, which are ordered by name.
	periods map[time.Duration][]*Autoscaler
	sets    map[string]*autoscalerSet
	// LongestMemory is the longest window or period of any autoscaler.
	LongestMemory time.Duration
}

// NewGeneration returns a generation without autoscalers.
func NewGeneration(c *config.Config, set adapters.Set) *Generation {
	return &Generation{
		Set: set, Config: c,
		Names:       slices.Sorted(maps.Keys(c.Autoscalers)),
		Autoscalers: map[string]*Autoscaler{},
		periods:     map[time.Duration][]*Autoscaler{},
		sets:        map[string]*autoscalerSet{},
	}
}

// Add adds an autoscaler with its definition.
func (g *Generation) Add(a *Autoscaler, def *Definition) {
	g.Autoscalers[def.Name] = a
	g.LongestMemory = max(g.LongestMemory, def.longestMemory())
	g.periods[def.SyncPeriod] = append(g.periods[def.SyncPeriod], a)
}

// ConfigureScaleIn configures the removal of instances for the targets of each fleet.
func (g *Generation) ConfigureScaleIn() {
	options := map[*adapters.Fleet]map[targets.Ref]drain.Options{}
	for _, a := range g.Autoscalers {
		def := a.definition.Load()
		if def.Fleet.ScaleIn == nil {
			continue
		}
		if options[def.Fleet] == nil {
			options[def.Fleet] = map[targets.Ref]drain.Options{}
		}
		options[def.Fleet][def.Target] = def.scaleInOptions(&a.cpuUse)
	}
	for _, h := range g.Fleets {
		if h.ScaleIn != nil {
			h.ScaleIn.Configure(options[h])
		}
	}
}

// maxSets is the number of sets that a generation caches.
const maxSets = 16

// setFor returns the set of the autoscalers with one of the given periods.
func (g *Generation) setFor(periods []time.Duration) *autoscalerSet {
	var key strings.Builder
	var all []*Autoscaler
	for _, period := range periods {
		key.WriteString(period.String() + " ")
	}
	if set, ok := g.sets[key.String()]; ok {
		return set
	}
	for _, period := range periods {
		all = append(all, g.periods[period]...)
	}
	set := newAutoscalerSet(all)
	if len(g.sets) >= maxSets {
		clear(g.sets)
	}
	g.sets[key.String()] = set
	return set
}

// Has reports whether the autoscaler or the fleet of a scope exists.
func (g *Generation) Has(scope policy.Scope) bool {
	return (scope.Autoscaler == "" || g.Autoscalers[scope.Autoscaler] != nil) && (scope.Fleet == "" || g.Fleets[scope.Fleet] != nil)
}
