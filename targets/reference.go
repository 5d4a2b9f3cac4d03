package targets

import (
	"slices"
	"strings"
)

// Reference is how the targets of a kind are written on the command line, after
// "FLEET/".
type Reference struct {
	// Paths are the ways to write one: keys in braces and words, parted by slashes.
	Paths []string
	// Whole is set where the only key takes slashes too, Escaped where a slash inside
	// of a part is "%2F".
	Whole, Escaped bool
	// Example is what the first path may look like.
	Example string
	// Workload is the target that a workload of Kubernetes probably is: "{name}" stands
	// for its name, "{namespace}" for its namespace.
	Workload string
	// Around are the keys of what a target is in, as a region, and Suffix ends the name of
	// every target: both are left out where a target is called by a short name.
	Around []string
	Suffix string
}

// Key is a key of a target's table and its text.
type Key struct{ Name, Value string }

// unescape undoes how a slash and a percent sign are written inside of a part.
var unescape = strings.NewReplacer("%2F", "/", "%2f", "/", "%25", "%")

// Parse returns the keys that a name gives by the first path that it fills; false
// when it fills none.
func (r Reference) Parse(name string) (keys []Key, ok bool) {
	for _, path := range r.Paths {
		if keys, ok := r.match(path, name); ok {
			return keys, true
		}
	}
	return nil, false
}

// Suggest returns the keys of the target that a workload of Kubernetes probably is.
func (r Reference) Suggest(namespace, name string) []Key {
	keys, _ := r.Parse(r.Workload)
	of := strings.NewReplacer("{namespace}", namespace, "{name}", name)
	for i := range keys {
		keys[i].Value = of.Replace(keys[i].Value)
	}
	return keys
}

// Short returns what a target with these keys is called in short: the values that tell
// it from others, each once.
func (r Reference) Short(keys []Key) string {
	var parts []string
	for _, key := range keys {
		part := strings.TrimSuffix(key.Value, r.Suffix)
		if !slices.Contains(r.Around, key.Name) && !slices.Contains(parts, part) {
			parts = append(parts, part)
		}
	}
	return strings.Join(parts, "-")
}

// match returns the keys of a path that a name fills; false when it does not.
func (r Reference) match(path, name string) (keys []Key, ok bool) {
	words, parts := strings.Split(path, "/"), strings.Split(name, "/")
	if r.Whole {
		parts = []string{name}
	}
	if len(words) != len(parts) {
		return nil, false
	}
	for i, word := range words {
		key, part := strings.Trim(word, "{}"), parts[i]
		if r.Escaped {
			part = unescape.Replace(part)
		}
		switch {
		case part == "":
			return nil, false
		case key != word:
			keys = append(keys, Key{Name: key, Value: part})
		case word != part:
			return nil, false
		}
	}
	return keys, true
}

// Hint returns how the targets of a fleet are written, for a person.
func (r Reference) Hint(fleet string) string {
	var forms []string
	for _, path := range r.Paths {
		words := strings.Split(path, "/")
		for i, word := range words {
			if key := strings.Trim(word, "{}"); key != word {
				words[i] = strings.ToUpper(key)
			}
		}
		forms = append(forms, fleet+"/"+strings.Join(words, "/"))
	}
	return "write it as " + strings.Join(forms, " or ") + ", for example " + fleet + "/" + r.Example
}
