package config

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/BurntSushi/toml"

	"github.com/hpad/hpad/settings"
)

// The top-level tables of a configuration.
const (
	daemonKey      = "daemon"
	haKey          = "ha"
	fleetsKey      = "fleets"
	sourcesKey     = "sources"
	notifyKey      = "notifications"
	autoscalersKey = "autoscalers"
)

// document is one parsed file.
//
// BurntSushi/toml decodes it. The index needs a second parser, pelletier/go-toml/v2/unstable, because
// toml.MetaData contains neither positions nor values as written. A toml.ParseError contains the
// position of a key whose decoding fails, but all elements of an array of tables share one key, so that
// an error in the first element has the position of the last one. A toml.Primitive has the same keys.
type document struct {
	name string
	text []byte
	// index is built when the first error is recorded.
	index map[string]place
}

// table is one decoded table of a document: [daemon], [ha] or a named one.
type table struct {
	loader *loader
	doc    *document
	// path is, for example, "fleets.prod", and name is its last part.
	path, name string
	raw        map[string]any
	// labels is set if the table comes from labels, so that all values are strings.
	labels bool
	// parts maps services of a fleet to the other documents that define them.
	parts map[string]*document
	// misfits lists the keys with values of the wrong type. Other errors about these keys are
	// dropped.
	misfits []string
	// meant is the set of keys that are probably misspelled in the file, or already reported as
	// missing. They are not reported as missing.
	meant map[string]bool
}

// parse parses one file and sorts its tables.
func (l *loader) parse(name string, text []byte) {
	l.files = append(l.files, name)
	if l.size += len(text); l.size > maxSize {
		l.reject(name, 0, fmt.Sprintf("all files together may have at most %d MiB", maxSize>>20))
		return
	}
	lines, deep := measure(text)
	if deep > 0 {
		l.reject(name, deep, fmt.Sprintf("has more than %d nested arrays, tables and parts of dotted keys", maxDepth))
		return
	}
	if l.lines += lines; l.lines > maxLines {
		l.reject(name, 0, fmt.Sprintf("all files together may have at most %d million lines and elements of arrays", maxLines/1_000_000))
		return
	}
	doc := &document{name: name, text: text}
	var root map[string]any
	if err := toml.Unmarshal(text, &root); err != nil {
		l.incomplete = true
		l.errs = append(l.errs, syntaxError(name, text, err))
		return
	}
	top := &table{loader: l, doc: doc, meant: map[string]bool{}}
	for _, key := range slices.Sorted(maps.Keys(root)) {
		if l.full() {
			return
		}
		section, single := l.tables[key], map[string]**table{daemonKey: &l.daemon, haKey: &l.ha}[key]
		if section == nil && single == nil {
			top.unknown(join("", key), []string{daemonKey, haKey, fleetsKey, sourcesKey, autoscalersKey, notifyKey})
			continue
		}
		switch t := top.child(key, root[key]); {
		case t == nil:
		case section != nil:
			t.collect(section)
		case *single != nil:
			t.add("", "", "is already defined in "+(*single).where("")+"; keep one ["+key+"] table")
		default:
			*single = t
		}
	}
}

// syntaxError converts an error of the TOML parser.
func syntaxError(name string, text []byte, err error) Error {
	e := Error{File: name, Detail: strings.TrimPrefix(err.Error(), "toml: ")}
	if failed, ok := errors.AsType[toml.ParseError](err); ok {
		// If the error is at the end of a line, the parser reports the next line.
		e.Line = 1 + bytes.Count(text[:min(failed.Position.Start, len(text))], []byte("\n"))
		e.Detail = "not valid TOML: " + ends.Replace(failed.Message)
	}
	return e
}

// ends rewrites the parser's messages about unexpected ends of lines and files.
var ends = strings.NewReplacer(
	`, but got '\n' instead`, ", but the line ends", ` but found '\n' instead`, ", but the line ends",
	`, but got '\x00' instead`, ", but the file ends", ` but found '\x00' instead`, ", but the file ends",
	"unexpected EOF; ", "the file ends here; ", "unexpected EOF", "the file ends here",
	"strings cannot contain newlines", "the line ends before the string does; expected '\"'",
)

// collect adds the named tables to their section.
func (t *table) collect(section map[string]*table) {
	for _, name := range slices.Sorted(maps.Keys(t.raw)) {
		switch one, other := t.child(name, t.raw[name]), section[name]; {
		case one == nil:
		case !validName(name):
			one.add("", "", fmt.Sprintf("%q is not a valid name: %s", name, nameRule))
		case other != nil:
			rule := "names must be unique"
			if t.path == fleetsKey {
				if whole := spread(other, one); whole != nil {
					whole.name, section[other.name] = other.name, whole
					continue
				}
				if one.raw[servicesKey] != nil || other.raw[servicesKey] != nil {
					rule = "only its services can be in several files"
				}
			}
			one.add("", "", "is already defined in "+other.where("")+"; "+rule)
		default:
			one.name = strings.Clone(name) // a substring would keep the whole file in memory
			section[one.name] = one
		}
	}
}

// child returns an inner table, or records an error and returns nil if the value is not a table.
func (t *table) child(key string, value any) *table {
	c := &table{loader: t.loader, doc: t.doc, path: join(t.path, key), name: key, meant: map[string]bool{}}
	raw, ok := value.(map[string]any)
	if !ok {
		c.add("", "", "must be a table, not "+settings.KindOf(value))
		return nil
	}
	c.raw = raw
	return c
}

// add records an error for a path below the table, or for the table itself if the path is "". It
// drops errors that follow from another error.
func (t *table) add(key, value, detail string) {
	if t.meant[key] && value == "" {
		return
	}
	if slices.ContainsFunc(t.misfits, func(misfit string) bool { return isWithin(key, misfit) || isWithin(misfit, key) }) {
		return
	}
	t.record(key, value, detail)
}

// record records an error unconditionally.
func (t *table) record(key, value, detail string) {
	if t.loader.full() {
		return
	}
	path, doc := under(t.path, key), t.docOf(key)
	t.loader.errs = append(t.loader.errs, Error{File: doc.name, Line: doc.lineOf(path), Key: path, Value: value, Detail: detail})
}

// warn records a warning about a suspicious value, unless the key has an error.
func (t *table) warn(key, detail string) { t.addWarning(key, detail, false) }

// warnUnworkable records a warning about a setting that prevents the autoscaler from working.
func (t *table) warnUnworkable(key, detail string) { t.addWarning(key, detail, true) }

func (t *table) addWarning(key, detail string, unworkable bool) {
	path, doc := under(t.path, key), t.docOf(key)
	if slices.ContainsFunc(t.misfits, func(misfit string) bool { return isWithin(key, misfit) }) {
		return
	}
	t.loader.warnings = append(t.loader.warnings, Error{
		File: doc.name, Line: doc.lineOf(path), Key: path, Value: doc.textOf(path), Detail: detail, Unworkable: unworkable,
	})
}

// addWritten records an error and quotes the value from the file.
func (t *table) addWritten(key, detail string) {
	t.add(key, t.docOf(key).textOf(under(t.path, key)), detail)
}

// unknown records an unknown key and suggests the most similar allowed key.
func (t *table) unknown(key string, allowed []string) {
	detail := "unknown key"
	parent, last := cutLast(key)
	if best := Nearest(last, allowed); slices.Contains(allowed, metricsKey) && settings.FieldsOf(reflect.TypeFor[metricTable]()).Has(last) {
		detail += "; set it in metrics"
	} else if best != "" {
		detail += fmt.Sprintf("; did you mean %q?", best)
		t.meant[under(parent, best)] = true
	} else {
		detail += "; allowed are " + strings.Join(slices.Sorted(slices.Values(allowed)), ", ")
	}
	t.add(key, "", detail)
}

// where returns "file:line" for a key of the table.
func (t *table) where(key string) string {
	doc := t.docOf(key)
	return doc.name + ":" + strconv.Itoa(doc.lineOf(under(t.path, key)))
}

// servicesKey is the only table of a fleet that can be spread over several files.
const servicesKey = "services"

// servicesOf returns the services in a fleet's table. alone reports whether the table has no other
// keys and thus only adds services to a fleet from another file.
func (t *table) servicesOf() (services map[string]any, alone bool) {
	services, ok := t.raw[servicesKey].(map[string]any)
	return services, ok && len(t.raw) == 1
}

// spread merges two tables of one fleet from two files into the table with the fleet's own keys.
// It returns nil if both tables have such keys, or if services is not a table. It records an error
// if both tables define the same service.
func spread(earlier, later *table) *table {
	_, alone := later.servicesOf()
	_, first := earlier.servicesOf()
	whole, part := earlier, later
	switch {
	case alone:
	case first:
		whole, part = later, earlier
	default:
		return nil
	}
	if given, present := whole.raw[servicesKey]; !present {
		whole.raw[servicesKey] = map[string]any{}
	} else if _, ok := given.(map[string]any); !ok {
		return nil
	}
	if whole.parts == nil {
		whole.parts = map[string]*document{}
	}
	services, _ := whole.servicesOf()
	added, _ := part.servicesOf()
	for _, name := range slices.Sorted(maps.Keys(added)) {
		key := join(servicesKey, name)
		if _, twice := services[name]; twice {
			later.add(key, "", "is already defined in "+earlier.where(key)+"; names must be unique")
			continue
		}
		services[name] = added[name]
		whole.parts[key] = part.docOf(key)
	}
	return whole
}

// docOf returns the document that contains a key of the table.
func (t *table) docOf(key string) *document {
	for part, doc := range t.parts {
		if isWithin(key, part) {
			return doc
		}
	}
	return t.doc
}
