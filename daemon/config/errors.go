package config

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// Error is one error in a configuration.
type Error struct {
	// File is the name of the file. It is empty for an error from another package.
	File string
	// Line starts at 1. It is 0 if the error concerns the whole file.
	Line int
	// Key is the path of the key, such as "autoscalers.checkout.metrics[0].value". It may be empty.
	Key string
	// Value is quoted as written in the file. It is empty for missing values, tables and
	// possible secrets.
	Value string
	// Detail describes the error and the allowed values.
	Detail string
	// Unworkable marks a warning about an autoscaler that cannot work. The daemon still starts,
	// because other autoscalers are not affected.
	Unworkable bool
}

// Error returns "file:line: key = value: detail", or the result of Text if File is empty.
func (e Error) Error() string {
	where := e.File
	if where == "" {
		return e.Text()
	}
	if e.Line > 0 {
		where += ":" + strconv.Itoa(e.Line)
	}
	return where + ": " + e.Text()
}

// Text returns "key = value: detail".
func (e Error) Text() string {
	switch {
	case e.Key == "":
		return e.Detail
	case e.Value == "":
		return e.Key + ": " + e.Detail
	}
	return e.Key + " = " + e.Value + ": " + e.Detail
}

// Errors contains all errors of a configuration, sorted by file, line and key. It is the only error
// type that Load, Check and Parse return.
type Errors []Error

// Error returns all errors, one per line.
func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i, mistake := range e {
		lines[i] = mistake.Error()
	}
	return strings.Join(lines, "\n")
}

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

// Unwrap returns the errors.
func (e Errors) Unwrap() []error {
	all := make([]error, len(e))
	for i, mistake := range e {
		all[i] = mistake
	}
	return all
}
