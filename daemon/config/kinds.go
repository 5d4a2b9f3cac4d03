package config

import (
	"time"

	"github.com/hpad/hpad/settings"

	"github.com/hpad/hpad/sources/embedded"
	"github.com/hpad/hpad/sources/prometheus"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/compose"
	"github.com/hpad/hpad/targets/nomad"
	"github.com/hpad/hpad/targets/process"
	"github.com/hpad/hpad/targets/swarm"
	"github.com/hpad/hpad/targets/systemd"
)

// kindConfig is the table of one kind of fleet or source, a pointer to a struct
// with toml tags.
type kindConfig interface {
	// SetDefaults fills in what was not given.
	SetDefaults()
	// Validate answers every mistake, with paths relative to the table.
	Validate() []settings.FieldError
}

// kindTarget is what a kind of fleet reads of an autoscaler's target, a pointer
// to a struct with toml tags.
type kindTarget interface {
	Validate() []settings.FieldError
	// Name answers the target's canonical name, for targets.Ref.
	Name() string
}

// targetChecker is what a kindConfig of a fleet also is when it knows the
// targets there are: it answers "", or why there is none of that name.
type targetChecker interface {
	CheckTarget(name string) string
}

// targetDefaulter is what a kindConfig of a fleet also is when a target may leave
// things to its fleet: it fills them in.
type targetDefaulter interface {
	DefaultTarget(target any)
}

// discoverer is what a kindConfig of a fleet also is when its targets can be found
// by their labels: it says whether they are, and what labels may ask for.
type discoverer interface {
	Discovers() bool
	LimitsLabels() targets.LabelLimits
}

// engineNamer is what a kindConfig of a fleet also is when several fleets may reach
// the same targets: Engine returns what two fleets of the kind have in common that
// are sure to do so, as the configuration tells. That two differ proves nothing.
type engineNamer interface {
	Engine() string
}

// fleetKind makes the empty tables of one kind of fleet.
type fleetKind struct {
	config func() kindConfig
	target func() kindTarget
	// samples says whether the fleet itself can tell the use of resources.
	samples bool
	// guarded says that readings by which a target collapses are doubted where the
	// configuration does not say otherwise.
	guarded bool
	// removes says whether instances can be taken by name.
	removes bool
	// unique says that no two instances anywhere have the same id.
	unique bool
}

// sourceKind makes the empty table of one kind of source.
type sourceKind struct {
	config func() kindConfig
	// scrapes answers the targets whose instances the source reads by itself; nil
	// for a kind that does not.
	scrapes func(config any) []scrape
	// interval returns how often the source scrapes jobs of which ofJob is true, or
	// any where there are none; 0 where it scrapes nothing. It is nil for a kind that
	// does not evaluate queries itself.
	interval func(config any, ofJob func(job string) bool) time.Duration
}

// scrape is one target that a source reads by itself.
type scrape struct {
	// field is the path of the entry in the source's table.
	field string
	// fleet and target name it; an empty fleet means that the entry names
	// addresses instead.
	fleet, target string
}

// kinds are the kinds there are.
type kinds struct {
	fleets  map[string]fleetKind
	sources map[string]sourceKind
	// omitted are the kinds of fleets that this build leaves out, each with the build
	// tag that did.
	omitted map[string]string
}

// optionalKind is a kind of fleet that a build may leave out.
type optionalKind struct {
	name string
	// tag is the build tag that leaves it out.
	tag string
	// kind is nil where it is left out.
	kind *fleetKind
}

// with adds kinds that a build may leave out.
func (k kinds) with(optional ...optionalKind) kinds {
	k.omitted = map[string]string{}
	for _, each := range optional {
		if each.kind == nil {
			k.omitted[each.name] = each.tag
		} else {
			k.fleets[each.name] = *each.kind
		}
	}
	return k
}

// builtIn are the kinds of this hpad.
var builtIn = kinds{
	fleets: map[string]fleetKind{
		"process": {
			config:  func() kindConfig { return &process.Config{} },
			target:  func() kindTarget { return &process.Target{} },
			samples: true,
		},
		"nomad": {
			config:  func() kindConfig { return &nomad.Config{} },
			target:  func() kindTarget { return &nomad.Target{} },
			samples: true,
			unique:  true,
		},
		"compose": {
			config:  func() kindConfig { return &compose.Config{} },
			target:  func() kindTarget { return &compose.Target{} },
			samples: true,
			unique:  true,
		},
		"swarm": {
			config:  func() kindConfig { return &swarm.Config{} },
			target:  func() kindTarget { return &swarm.Target{} },
			samples: true,
			unique:  true,
		},
		"systemd": {
			config:  func() kindConfig { return &systemd.Config{} },
			target:  func() kindTarget { return &systemd.Target{} },
			samples: true,
		},
	},
	sources: map[string]sourceKind{
		"prometheus": {
			config: func() kindConfig { return &prometheus.Config{} },
		},
		"embedded": {
			config:   func() kindConfig { return &embedded.Config{} },
			scrapes:  embeddedScrapes,
			interval: embeddedInterval,
		},
	},
}.with(awsasgKind, azurevmssKind, gcemigKind)

// embeddedScrapes answers what an embedded source scrapes.
func embeddedScrapes(config any) []scrape {
	c, ok := config.(*embedded.Config)
	if !ok {
		return nil
	}
	var scrapes []scrape
	for i, s := range c.Scrape {
		scrapes = append(scrapes, scrape{field: element("scrape", i), fleet: s.Fleet, target: s.Target})
	}
	return scrapes
}
