package config

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/hpad/hpad/settings"
	"github.com/hpad/hpad/targets"
)

// Reference is a target as a person writes it on the command line: as
// "FLEET/TARGET", which is how references are shown.
type Reference struct {
	// Ref is the target with what it leaves to its fleet filled in.
	Ref targets.Ref
	// Kind is its fleet's.
	Kind string
	// Samples says whether the fleet itself can tell the use of resources.
	Samples bool
	// Keys are those of the target's table that were given, without the fleet, in the
	// order they are best written in.
	Keys []TargetKey
}

// TargetKey is a key of a target's table and its text.
type TargetKey struct{ Name, Value string }

// ReferenceError is a reference that names no target of the configuration.
type ReferenceError struct {
	// Detail says what is wrong.
	Detail string
	// Hint says what a right one looks like.
	Hint string
}

// Error answers what is wrong.
func (e *ReferenceError) Error() string { return e.Detail }

// referenceForm says how a kind's targets are referred to.
type referenceForm struct {
	// paths are what may stand after the fleet: keys in braces and words, parted by
	// slashes.
	paths []string
	// whole says that the only key takes slashes too.
	whole bool
	// escaped says that a slash inside of a part is "%2F".
	escaped bool
	// example is what the first path may look like.
	example string
}

// referenceForms are those of all kinds of fleets.
var referenceForms = map[string]referenceForm{
	"process": {paths: []string{"{service}"}, whole: true, example: "worker"},
	"nomad": {
		paths:   []string{"{job}/{group}", "{namespace}/{job}/{group}", "{region}/{namespace}/{job}/{group}"},
		escaped: true, example: "checkout/api",
	},
	"compose":   {paths: []string{"{project}/{service}"}, example: "shop/web"},
	"swarm":     {paths: []string{"{service}"}, whole: true, example: "shop_web"},
	"systemd":   {paths: []string{"{template}"}, whole: true, example: "worker@.service"},
	"awsasg":    {paths: []string{"{group}"}, whole: true, example: "web-asg"},
	"gcemig":    {paths: []string{"zones/{zone}/{group}", "regions/{region}/{group}", "{group}"}, example: "zones/europe-west4-a/web"},
	"azurevmss": {paths: []string{"{resource_group}/{scale_set}"}, example: "shop/web"},
}

// FleetKinds answers the kinds of fleets that this build has, sorted.
func FleetKinds() []string { return slices.Sorted(maps.Keys(builtIn.fleets)) }

// KindSamples says whether fleets of a kind can tell the use of resources
// themselves; known is false where there is no such kind in this hpad.
func KindSamples(kind string) (samples, known bool) {
	found, known := builtIn.fleets[kind]
	return found.samples, known
}

// KindUnique reports whether no two instances of fleets of a kind, wherever they
// are, have the same id.
func KindUnique(kind string) bool { return builtIn.fleets[kind].unique }

// ParseReference reads a reference. The error is a [ReferenceError].
func (c *Config) ParseReference(text string) (Reference, error) {
	fleet, name, found := strings.Cut(text, "/")
	if !found || fleet == "" || name == "" {
		return Reference{}, &ReferenceError{
			Detail: fmt.Sprintf("%q does not name a fleet and a target in it, as FLEET/TARGET", text),
			Hint:   c.referencesHint(),
		}
	}
	known, ok := c.Fleets[fleet]
	if !ok {
		hint := c.referencesHint()
		if best := nearest(fleet, slices.Sorted(maps.Keys(c.Fleets))); best != "" {
			hint = fmt.Sprintf("did you mean %q?", best+"/"+name)
		}
		return Reference{}, &ReferenceError{Detail: fmt.Sprintf("there is no fleet %q", fleet), Hint: hint}
	}
	form := referenceForms[known.Kind]
	for _, path := range form.paths {
		keys, ok := form.match(path, name)
		if !ok {
			continue
		}
		reference, err := c.reference(known, keys)
		if err != nil {
			return Reference{}, &ReferenceError{Detail: fmt.Sprintf("%q: %s", text, err), Hint: form.hint(known)}
		}
		return reference, nil
	}
	return Reference{}, &ReferenceError{
		Detail: fmt.Sprintf("%q is not how a target of fleet %q, of kind %q, is written", text, fleet, known.Kind),
		Hint:   form.hint(known),
	}
}

// reference answers the target that the keys name in a fleet.
func (c *Config) reference(fleet Fleet, keys []TargetKey) (Reference, error) {
	kind := builtIn.fleets[fleet.Kind]
	target := kind.target()
	value := reflect.ValueOf(target).Elem()
	fields := settings.FieldsOf(value.Type())
	for _, key := range keys {
		value.FieldByIndex(fields.ByKey[key.Name].Index).SetString(key.Value)
	}
	if mistakes := target.Validate(); len(mistakes) > 0 {
		return Reference{}, mistakes[0]
	}
	if defaulter, ok := fleet.Config.(targetDefaulter); ok {
		defaulter.DefaultTarget(target)
	}
	name := target.Name()
	if detail := checkTarget(fleet, name); detail != "" {
		return Reference{}, fmt.Errorf("target: %s", detail)
	}
	return Reference{Ref: targets.Ref{Fleet: fleet.Name, Name: name}, Kind: fleet.Kind, Samples: kind.samples, Keys: keys}, nil
}

// hint says how the targets of a fleet are written.
func (f referenceForm) hint(fleet Fleet) string {
	var forms []string
	for _, path := range f.paths {
		words := strings.Split(path, "/")
		for i, word := range words {
			if key := strings.Trim(word, "{}"); key != word {
				words[i] = strings.ToUpper(key)
			}
		}
		forms = append(forms, fleet.Name+"/"+strings.Join(words, "/"))
	}
	return fmt.Sprintf("write it as %s, for example %s/%s", strings.Join(forms, " or "), fleet.Name, f.example)
}

// referencesHint names the fleets there are, with the form of their targets.
func (c *Config) referencesHint() string {
	if len(c.Fleets) == 0 {
		return "the configuration has no fleet yet: define one as [fleets.NAME]"
	}
	var examples []string
	for _, name := range slices.Sorted(maps.Keys(c.Fleets)) {
		examples = append(examples, name+"/"+referenceForms[c.Fleets[name].Kind].example)
	}
	return "\"hpad get\" shows references; they are written as " + strings.Join(examples, ", ")
}

// unescape undoes how a slash and a percent sign are written inside of a part.
var unescape = strings.NewReplacer("%2F", "/", "%2f", "/", "%25", "%")

// match answers the keys of a path that a name fills; ok is false when it is
// written otherwise.
func (f referenceForm) match(path, name string) (keys []TargetKey, ok bool) {
	words, parts := strings.Split(path, "/"), strings.Split(name, "/")
	if f.whole {
		parts = []string{name}
	}
	if len(words) != len(parts) {
		return nil, false
	}
	for i, word := range words {
		key, part := strings.Trim(word, "{}"), parts[i]
		if f.escaped {
			part = unescape.Replace(part)
		}
		switch {
		case part == "":
			return nil, false
		case key != word:
			keys = append(keys, TargetKey{Name: key, Value: part})
		case word != part:
			return nil, false
		}
	}
	return keys, true
}
