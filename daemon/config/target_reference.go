package config

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/hpad/hpad/daemon/kinds"
	"github.com/hpad/hpad/settings"
	"github.com/hpad/hpad/targets"
)

// Reference is a target in the command-line form FLEET/TARGET.
type Reference struct {
	// Ref is the target with the fleet's defaults applied.
	Ref  targets.Ref
	Kind string
	// Samples reports whether the fleet measures resource usage.
	Samples bool
	// Keys lists the given keys of the target's table in their preferred order, without the fleet.
	Keys []targets.Key
}

// ReferenceError is an invalid reference to a target.
type ReferenceError struct {
	Detail string
	// Hint describes valid references.
	Hint string
}

// Error returns the detail.
func (e *ReferenceError) Error() string { return e.Detail }

// ParseReference parses a target reference. The error is a [ReferenceError].
func (c *Config) ParseReference(text string) (Reference, error) {
	fleet, name, found := strings.Cut(text, "/")
	if !found || fleet == "" || name == "" {
		return Reference{}, &ReferenceError{
			Detail: fmt.Sprintf("%q is not a fleet and a target in the form FLEET/TARGET", text),
			Hint:   c.referencesHint(),
		}
	}
	known, ok := c.Fleets[fleet]
	if !ok {
		hint := c.referencesHint()
		if best := Nearest(fleet, slices.Sorted(maps.Keys(c.Fleets))); best != "" {
			hint = fmt.Sprintf("did you mean %q?", best+"/"+name)
		}
		return Reference{}, &ReferenceError{Detail: fmt.Sprintf("fleet %q does not exist", fleet), Hint: hint}
	}
	form := kinds.Fleets[known.Kind].Reference
	keys, ok := form.Parse(name)
	if !ok {
		return Reference{}, &ReferenceError{
			Detail: fmt.Sprintf("%q is not a valid target in fleet %q of kind %q", text, fleet, known.Kind),
			Hint:   form.Hint(fleet),
		}
	}
	reference, err := c.reference(known, keys)
	if err != nil {
		return Reference{}, &ReferenceError{Detail: fmt.Sprintf("%q: %s", text, err), Hint: form.Hint(fleet)}
	}
	return reference, nil
}

func (c *Config) reference(fleet Fleet, keys []targets.Key) (Reference, error) {
	kind := kinds.Fleets[fleet.Kind]
	target := kind.Target()
	value := reflect.ValueOf(target).Elem()
	fields := settings.FieldsOf(value.Type())
	for _, key := range keys {
		value.FieldByIndex(fields.ByKey[key.Name].Index).SetString(key.Value)
	}
	if mistakes := target.Validate(); len(mistakes) > 0 {
		return Reference{}, mistakes[0]
	}
	if defaulter, ok := fleet.Config.(targets.TargetDefaulter); ok {
		defaulter.DefaultTarget(target)
	}
	name := target.Name()
	if detail := checkTarget(fleet, name); detail != "" {
		return Reference{}, fmt.Errorf("target: %s", detail)
	}
	return Reference{Ref: targets.Ref{Fleet: fleet.Name, Name: name}, Kind: fleet.Kind, Samples: kind.Samples, Keys: keys}, nil
}

// referencesHint lists the fleets and the form of their target references.
func (c *Config) referencesHint() string {
	if len(c.Fleets) == 0 {
		return "the configuration has no fleet yet: define [fleets.NAME]"
	}
	var examples []string
	for _, name := range slices.Sorted(maps.Keys(c.Fleets)) {
		examples = append(examples, name+"/"+kinds.Fleets[c.Fleets[name].Kind].Reference.Example)
	}
	return "\"hpad get\" shows references; their form is " + strings.Join(examples, ", ")
}
