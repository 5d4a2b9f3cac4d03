// Package origin converts the policies of other autoscalers. Each origin, such as Kubernetes, is a
// package that reads its policies as drafts of autoscalers with notes.
package origin

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/hpad/hpad/cmd/hpad/draft"
	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/guard"
)

// Origin is a program whose policies hpad can convert.
type Origin interface {
	// Recognizes reports whether a file probably contains policies of the origin.
	Recognizes(text []byte) bool
	// Read returns the valid policies of a file and the objects that are not policies. The error joins
	// one [Error] for each problem.
	Read(file string, text []byte) ([]Policy, []Skipped, error)
}

// Policy is a policy of an origin.
type Policy interface {
	// Names returns the namespace and the name of the policy, which can be empty, and the name of its
	// target.
	Names() (namespace, name, target string)
	// Draft returns the autoscaler without its name.
	Draft(choices Choices) *draft.Autoscaler
}

// Choices contains values that policies do not contain.
type Choices struct {
	// Fleet contains all targets; empty leaves it undecided.
	Fleet string
	// Kind is of the fleet, and determines the keys of targets.
	Kind string
	// Source receives all queries; empty leaves it undecided.
	Source string
}

// Skipped is an object that is not a policy.
type Skipped struct {
	File string
	Line int
	// What is the kind and the name, for example "Deployment web".
	What string
}

// Error locates a fault in a file.
type Error struct {
	File string
	// Line is counted from 1. It is 0 if it is unknown.
	Line   int
	Detail string
}

// Error returns "file:line: detail".
func (e *Error) Error() string {
	if e.Line == 0 {
		return e.File + ": " + e.Detail
	}
	return e.File + ":" + strconv.Itoa(e.Line) + ": " + e.Detail
}

// maxFile is the maximum size of a file in bytes.
const maxFile = 16 << 20

// Read reads files with the first origin that recognizes them. The name "-" stands for stdin, and a
// directory for its files. Read returns all valid policies, and the errors of the others. If ctx
// ends, the only error is its cause.
func Read(ctx context.Context, origins []Origin, files []string, stdin io.Reader) (policies []Policy, skipped []Skipped, errs []error) {
	type results struct {
		policies []Policy
		skipped  []Skipped
		errs     []error
	}
	found, err := guard.Abandon(ctx, func() (r results, _ error) {
		for _, file := range files {
			for _, file := range expand(file) {
				if ctx.Err() != nil {
					return results{}, nil
				}
				found, others, err := read(origins, file, stdin)
				r.policies, r.skipped = append(r.policies, found...), append(r.skipped, others...)
				if joined, ok := err.(interface{ Unwrap() []error }); ok { //nolint:errorlint // Origin.Read returns joined errors.
					r.errs = append(r.errs, joined.Unwrap()...)
				} else if err != nil {
					r.errs = append(r.errs, err)
				}
			}
		}
		return r, nil
	})
	if err != nil {
		return nil, nil, []error{err}
	}
	return found.policies, found.skipped, found.errs
}

// extensions are the extensions of the files that are read in a directory.
var extensions = []string{".yaml", ".yml", ".json", ".hcl", ".nomad"}

// expand returns the files of a directory in order, or the argument if it is not a directory.
func expand(file string) (files []string) {
	entries, err := os.ReadDir(file)
	if err != nil {
		return []string{file}
	}
	for _, entry := range entries {
		if !entry.IsDir() && slices.Contains(extensions, filepath.Ext(entry.Name())) {
			files = append(files, filepath.Join(file, entry.Name()))
		}
	}
	return files
}

func read(origins []Origin, file string, stdin io.Reader) ([]Policy, []Skipped, error) {
	name, text, err := readFile(file, stdin)
	if err != nil {
		return nil, nil, err
	}
	for _, origin := range origins {
		if origin.Recognizes(text) {
			return origin.Read(name, text)
		}
	}
	return nil, nil, nil
}

// readFile returns the content of a file and its name for messages.
func readFile(file string, stdin io.Reader) (name string, text []byte, err error) {
	name, from := "stdin", stdin
	if file != "-" {
		opened, err := os.Open(file)
		if err != nil {
			return file, nil, err
		}
		defer func() { _ = opened.Close() }()
		name, from = file, opened
	}
	text, err = io.ReadAll(io.LimitReader(from, maxFile+1))
	if err != nil {
		return name, nil, fmt.Errorf("read %s: %w", name, err)
	}
	if len(text) > maxFile {
		return name, nil, fmt.Errorf("read %s: it is larger than %d MiB", name, maxFile>>20)
	}
	return name, text, nil
}

// Convert converts policies to autoscalers with unique names. The result has the same order.
func Convert(policies []Policy, choices Choices) []*draft.Autoscaler {
	drafts := make([]*draft.Autoscaler, len(policies))
	taken := map[string]bool{}
	for i, policy := range policies {
		a := policy.Draft(choices)
		name, note := nameOf(policy, taken)
		a.Name, taken[name] = name, true
		if note != "" {
			a.Notes = slices.Insert(a.Notes, min(1, len(a.Notes)), note)
		}
		drafts[i] = a
	}
	return drafts
}

// nameOf returns a unique name, and a note if it differs from the policy's name.
func nameOf(policy Policy, taken map[string]bool) (name, note string) {
	namespace, given, target := policy.Names()
	name = config.AdaptName(given)
	switch {
	case given == "":
		name = config.AdaptName(target)
		note = "Named after the target."
	case name != given:
		note = fmt.Sprintf("The name %q is not valid in hpad.", given)
	}
	if name == "" {
		name = "autoscaler"
	}
	if !taken[name] {
		return name, note
	}
	if namespace != "" {
		other := config.AdaptName(namespace + "-" + name)
		if !taken[other] {
			return other, fmt.Sprintf("The name includes the namespace, because another autoscaler is named %q.", name)
		}
		name = other
	}
	for n := 2; ; n++ {
		if other := fmt.Sprintf("%s-%d", name, n); !taken[other] {
			return other, fmt.Sprintf("The name has a number, because another autoscaler is named %q.", name)
		}
	}
}
