package config

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// Error is one mistake in a configuration.
type Error struct {
	// File is the file's name as it was given or found.
	File string
	// Line is where the mistake is, from 1; 0 means that it concerns the file as
	// a whole.
	Line int
	// Key is the path of the key, as "autoscalers.checkout.metrics[0].value";
	// empty where no key can be named.
	Key string
	// Value is what was given, as written; empty when nothing was, when it is a
	// table, and when it may be secret.
	Value string
	// Detail is what is wrong and what is allowed.
	Detail string
	// Unworkable is set of a warning by which an autoscaler can never do what it says. It
	// keeps nobody else from working, so that a daemon runs all the same.
	Unworkable bool
}

// Error returns "file:line: key = value: detail".
func (e Error) Error() string {
	where := e.File
	if e.Line > 0 {
		where += ":" + strconv.Itoa(e.Line)
	}
	return where + ": " + e.Text()
}

// Text returns "key = value: detail", for a reader who knows the file.
func (e Error) Text() string {
	switch {
	case e.Key == "":
		return e.Detail
	case e.Value == "":
		return e.Key + ": " + e.Detail
	}
	return e.Key + " = " + e.Value + ": " + e.Detail
}

// Errors are all mistakes of a configuration, in the order of the files,
// their lines and keys. Load, LoadFiles and Parse return no other error, so that
// errors.As finds it.
type Errors []Error

// Error returns the mistakes, one in a line.
func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i, mistake := range e {
		lines[i] = mistake.Error()
	}
	return strings.Join(lines, "\n")
}

// sorted orders mistakes by file, in the order given, line and key.
func (e Errors) sorted(files []string) Errors {
	order := make(map[string]int, len(files))
	for i, file := range files {
		order[file] = i
	}
	slices.SortStableFunc(e, func(a, b Error) int {
		return cmp.Or(cmp.Compare(order[a.File], order[b.File]), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Key, b.Key))
	})
	return e
}

// Unwrap returns the mistakes one by one.
func (e Errors) Unwrap() []error {
	all := make([]error, len(e))
	for i, mistake := range e {
		all[i] = mistake
	}
	return all
}
