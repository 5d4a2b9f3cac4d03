package config

import (
	"github.com/hpad/hpad/daemon/kinds"
	"github.com/hpad/hpad/settings"
	"github.com/hpad/hpad/sources"
	"github.com/hpad/hpad/targets"
)

// kindConfig is the table of one kind of fleet, source or drain, a pointer to a
// struct with toml tags.
type kindConfig interface {
	// SetDefaults fills in what was not given.
	SetDefaults()
	// Validate returns every mistake, with paths relative to the table.
	Validate() []settings.FieldError
}

// kindSet is what kinds there are.
type kindSet struct {
	fleets  map[string]targets.Kind
	sources map[string]sources.Kind
	// omitted are the kinds of fleets that this build leaves out, each with the build
	// tag that did.
	omitted map[string]string
}

// builtIn are the kinds of this hpad.
var builtIn = kindSet{fleets: kinds.Fleets, sources: kinds.Sources, omitted: kinds.Omitted()}
