package config

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/hpad/hpad/settings"

	"github.com/BurntSushi/toml"
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
type document struct {
	name string
	text []byte
	// index is built when the first mistake is found.
	index map[string]place
	// secret are the paths of the tables whose values are never shown.
	secret []string
}

// table is one table of a document that is decoded as a whole: [daemon] or a
// named one.
type table struct {
	loader *loader
	doc    *document
	// path is the table's, as "fleets.prod"; name its last part.
	path, name string
	raw        map[string]any
	// labels reports whether the table comes from labels, whose values are texts.
	labels bool
	// parts are the keys of services that other documents have; nil for all but fleets
	// whose services are spread over files.
	parts map[string]*document
	// misfits are the keys whose values are of another type than they should be: no
	// other mistake in them is recorded.
	misfits []string
	// meant are the keys that an unknown key was probably meant to be: that they
	// are missing is not recorded as well.
	meant map[string]bool
}

// parse reads one file and sorts its tables.
func (l *loader) parse(name string, text []byte) {
	l.files = append(l.files, name)
	doc := &document{name: name, text: text}
	var root map[string]any
	if err := toml.Unmarshal(text, &root); err != nil {
		l.incomplete = true
		l.errs = append(l.errs, syntaxError(name, text, err))
		return
	}
	top := &table{loader: l, doc: doc, meant: map[string]bool{}}
	for _, key := range slices.Sorted(maps.Keys(root)) {
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

// syntaxError turns the TOML parser's error of a text into a mistake.
func syntaxError(name string, text []byte, err error) Error {
	e := Error{File: name, Detail: strings.TrimPrefix(err.Error(), "toml: ")}
	if failed, ok := errors.AsType[toml.ParseError](err); ok {
		// Its own line is the next one where it met the end of one.
		e.Line = 1 + bytes.Count(text[:min(failed.Position.Start, len(text))], []byte("\n"))
		e.Detail = "not valid TOML: " + ends.Replace(failed.Message)
	}
	return e
}

// ends has the parser's words for the end of a line and of a file in plain ones.
var ends = strings.NewReplacer(
	`, but got '\n' instead`, ", but the line ends", ` but found '\n' instead`, ", but the line ends",
	`, but got '\x00' instead`, ", but the file ends", ` but found '\x00' instead`, ", but the file ends",
	"unexpected EOF; ", "the file ends here; ", "unexpected EOF", "the file ends here",
	"strings cannot contain newlines", "the line ends before the string does; expected '\"'",
)

// collect adds the tables of a top-level one to those of its section.
func (t *table) collect(section map[string]*table) {
	for _, name := range slices.Sorted(maps.Keys(t.raw)) {
		switch one, other := t.child(name, t.raw[name]), section[name]; {
		case one == nil:
		case !validName(name):
			one.add("", "", fmt.Sprintf("%q is not a valid name: %s", name, nameRule))
		case other != nil:
			rule := "a name may occur once"
			if t.path == fleetsKey {
				if whole := spread(other, one); whole != nil {
					whole.name, section[other.name] = other.name, whole
					continue
				}
				if one.raw[servicesKey] != nil || other.raw[servicesKey] != nil {
					rule = "only its services may be in several files"
				}
			}
			one.add("", "", "is already defined in "+other.where("")+"; "+rule)
		default:
			one.name = strings.Clone(name) // the parser's text is a part of the whole file
			section[one.name] = one
		}
	}
}

// child returns a table inside of t, and nil, once recorded, when it is something
// else.
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

// add records a mistake at a path below the table; "" is the table itself. One
// that follows from another is left out.
func (t *table) add(key, value, detail string) {
	if t.meant[key] && value == "" {
		return
	}
	if slices.ContainsFunc(t.misfits, func(misfit string) bool { return isWithin(key, misfit) || isWithin(misfit, key) }) {
		return
	}
	t.record(key, value, detail)
}

// record records a mistake, whatever it follows from.
func (t *table) record(key, value, detail string) {
	path, doc := under(t.path, key), t.docOf(key)
	t.loader.errs = append(t.loader.errs, Error{File: doc.name, Line: doc.lineOf(path), Key: path, Value: value, Detail: detail})
}

// warn records what is allowed and hardly meant, unless the key has a mistake.
func (t *table) warn(key, detail string) { t.addWarning(key, detail, false) }

// warnUnworkable records what an autoscaler can never do.
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

// addWritten records a mistake with the value as it is written in the file.
func (t *table) addWritten(key, detail string) {
	t.add(key, t.docOf(key).textOf(under(t.path, key)), detail)
}

// unknown records an unknown key, with the one that was probably meant.
func (t *table) unknown(key string, allowed []string) {
	detail := "unknown key"
	parent, last := cutLast(key)
	if best := Nearest(last, allowed); best != "" {
		detail += fmt.Sprintf("; did you mean %q?", best)
		t.meant[under(parent, best)] = true
	} else {
		detail += "; allowed are " + strings.Join(slices.Sorted(slices.Values(allowed)), ", ")
	}
	t.add(key, "", detail)
}

// where returns "file:line" of a key of the table.
func (t *table) where(key string) string {
	doc := t.docOf(key)
	return doc.name + ":" + strconv.Itoa(doc.lineOf(under(t.path, key)))
}
