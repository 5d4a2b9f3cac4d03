// Package spool is the smallest kind of fleet. A target is a directory, each file in it
// an instance: some program runs a worker as long as a file is there, and ends it and
// removes the file once that is named "*.stop".
package spool

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/settings"
	"github.com/hpad/hpad/targets"
)

// Kind is the kind of fleets of directories.
var Kind = targets.Kind{
	Name:      "spool",
	Config:    func() targets.Config { return new(Config) },
	Target:    func() targets.Target { return new(Target) },
	Reference: targets.Reference{Paths: []string{"{directory}"}, Whole: true, Example: "mails", Workload: "{name}"},
	Without: map[string]string{
		"down, unready instances":               "a worker whose file is there is ready",
		"read, readiness":                       "a worker whose file is there is ready",
		"a rival writes between read and write": "there is no time between them",
		"held":                                  "nobody can forbid a change of a directory for a while",
		"throttled":                             "a directory takes any number of calls",
		"out of range":                          "a directory may have any number of files",
		"partly done":                           "a full disk is not brought about here",
		"platform gone":                         "a directory that is gone is a target that is not found",
		"no answer":                             "a local directory answers",
		"resource use":                          "the program does not tell which processes are its workers",
	},
}

// Config is one [fleets.NAME] table of kind "spool".
type Config struct {
	// Dir is where the directories of the targets are.
	Dir string `toml:"dir"`
}

// SetDefaults fills in nothing.
func (c *Config) SetDefaults() {}

// Validate returns every mistake.
func (c *Config) Validate() []settings.FieldError {
	if !filepath.IsAbs(c.Dir) {
		return []settings.FieldError{{Field: "dir", Value: c.Dir, Detail: "must be an absolute path"}}
	}
	return nil
}

// Build makes a fleet of that name.
func (c *Config) Build(name string, _ targets.Env) (targets.Fleet, error) {
	f := &Fleet{dir: c.Dir}
	f.base.Name, f.base.Parse = name, parseName
	return f, nil
}

// Target is the part of an autoscaler's target table that a fleet reads.
type Target struct {
	Directory string `toml:"directory"`
}

// Validate returns every mistake.
func (t *Target) Validate() []settings.FieldError {
	if _, err := parseName(t.Directory); err != nil {
		return []settings.FieldError{{Field: "directory", Value: t.Directory, Detail: err.Error()}}
	}
	return nil
}

// Name returns the name of the directory.
func (t *Target) Name() string { return t.Directory }

func parseName(name string) (string, error) {
	if name != filepath.Base(name) || !filepath.IsLocal(name) {
		return "", errors.New("must be the name of a directory, without a path")
	}
	return name, nil
}

// Fleet scales directories. It is safe for concurrent use.
type Fleet struct {
	base targets.Base[string]
	dir  string
	// writing is held by a write, which reads first.
	writing sync.Mutex
}

// Snapshot reads the given directories.
func (f *Fleet) Snapshot(ctx context.Context, refs []targets.Ref) (map[targets.Ref]targets.Reading, error) {
	return f.base.Snapshot(ctx, refs, func(_ context.Context, wanted map[targets.Ref]string) (map[targets.Ref]targets.Reading, error) {
		readings := make(map[targets.Ref]targets.Reading, len(wanted))
		for ref, name := range wanted {
			readings[ref] = f.read(name)
		}
		return readings, nil
	})
}

func (f *Fleet) read(name string) targets.Reading {
	files, err := os.ReadDir(filepath.Join(f.dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return targets.Reading{Err: fmt.Errorf("%w: %w", targets.ErrTargetNotFound, err)}
	}
	var r targets.Reading
	for _, file := range files {
		info, infoErr := file.Info()
		if infoErr != nil {
			continue // removed meanwhile
		}
		instance := policy.Instance{
			ID: strings.TrimSuffix(file.Name(), stop), Deleting: strings.HasSuffix(file.Name(), stop),
			Phase: policy.PhaseRunning, Readiness: policy.ReadinessTrue, StartedAt: info.ModTime(), ReadinessChanged: info.ModTime(),
		}
		r.Instances = append(r.Instances, instance)
		if !instance.Deleting {
			r.SpecReplicas++
			r.Version += instance.ID + " "
		}
	}
	r.StatusReplicas, r.Version = r.SpecReplicas, r.Version+"."
	if err != nil {
		r.Err = fmt.Errorf("%w: %w", targets.ErrTransient, err)
	}
	return r
}

// stop ends the name of a file whose worker is to end.
const stop = ".stop"

// SetReplicas makes files, or has workers end, if the directory is still at version.
func (f *Fleet) SetReplicas(ctx context.Context, ref targets.Ref, n int32, version, _ string) error {
	return f.base.Scale(ctx, ref, n, "directory", func(_ context.Context, name string) error {
		f.writing.Lock()
		defer f.writing.Unlock()
		r := f.read(name)
		switch {
		case r.Err != nil:
			return r.Err
		case version != "" && version != r.Version:
			return fmt.Errorf("%w: it had %sand has %s", targets.ErrConflict, version, r.Version)
		}
		count := r.SpecReplicas
		for ; count < n; count++ {
			file, err := os.CreateTemp(filepath.Join(f.dir, name), "worker-*")
			if err != nil {
				return &targets.PartialError{Reached: count, Err: fmt.Errorf("%w: %w", targets.ErrTransient, err)}
			}
			_ = file.Close()
		}
		slices.SortFunc(r.Instances, func(a, b policy.Instance) int { return targets.CompareForRemoval(&a, &b, 0) })
		for _, instance := range r.Instances {
			if instance.Deleting || count <= n {
				continue
			}
			path := filepath.Join(f.dir, name, instance.ID)
			if err := os.Rename(path, path+stop); err != nil {
				return &targets.PartialError{Reached: count, Err: fmt.Errorf("%w: %w", targets.ErrTransient, err)}
			}
			count--
		}
		return nil
	})
}
