package targets

import (
	"slices"
	"strings"
)

// Reference is the syntax of targets on the command line, after "FLEET/".
type Reference struct {
	// Paths lists the alternative forms. Each consists of keys in braces and literal words,
	// separated by slashes.
	Paths []string
	// Whole reports whether the only key may contain slashes. Escaped reports whether a slash
	// inside a part is written as "%2F".
	Whole, Escaped bool
	// Example has the form of the first path.
	Example string
	// Workload is the probable target for a Kubernetes workload. "{name}" stands for the workload's
	// name, and "{namespace}" for its namespace.
	Workload string
	// Around lists the keys that a short name omits, such as a region. Suffix is the suffix that it
	// omits.
	Around []string
	Suffix string
}

// Key is a name in a target's table, with its value.
type Key struct{ Name, Value string }

var unescape = strings.NewReplacer("%2F", "/", "%2f", "/", "%25", "%")

// Parse returns the keys in a name according to the first matching path, or false if no path
// matches.
func (r Reference) Parse(name string) (keys []Key, ok bool) {
	for _, path := range r.Paths {
		if keys, ok := r.match(path, name); ok {
			return keys, true
		}
	}
	return nil, false
}

// Suggest returns the keys of the probable target for a Kubernetes workload.
func (r Reference) Suggest(namespace, name string) []Key {
	keys, _ := r.Parse(r.Workload)
	of := strings.NewReplacer("{namespace}", namespace, "{name}", name)
	for i := range keys {
		keys[i].Value = of.Replace(keys[i].Value)
	}
	return keys
}

// Short returns a short name for a target with these keys: the distinct values without the Around
// keys.
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

// match returns the keys in a name according to a path; false if the path does not match.
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

// Hint returns the syntax of the targets of a fleet as a sentence.
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
