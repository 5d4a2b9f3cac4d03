// Package spool is a minimal fleet kind. A target is a directory, and each file in it is an
// instance. An external program runs one worker per file. After a file has been renamed to
// "*.stop" and its worker has ended, the program removes the file.
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
	"sync/atomic"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/settings"
	"github.com/hpad/hpad/targets"
)

// Kind is the fleet kind "spool".
var Kind = targets.Kind{
	Name:      "spool",
	Config:    func() targets.Config { return new(Config) },
	Target:    func() targets.Target { return new(Target) },
	Reference: targets.Reference{Paths: []string{"{directory}"}, Whole: true, Example: "mails", Workload: "{name}"},
	Without: map[string]string{
		"down, unready instances":                  "a worker is ready when its file exists",
		"read, readiness":                          "a worker is ready when its file exists",
		"an external write between read and write": "a write reads the directory itself",
		"held":                 "a directory cannot be locked",
		"throttled":            "a directory has no rate limit",
		"out of range":         "a directory has no maximum",
		"partial write":        "this test has no full disk",
		"platform unreachable": "a missing directory is a missing target",
		"no response":          "a local directory does not hang",
		"resource use":         "the program does not report the processes of its workers",
	},
}

// Config is the configuration of a fleet of kind "spool".
type Config struct {
	// Dir is the directory that contains the targets' directories.
	Dir string `toml:"dir"`
}

// SetDefaults does nothing, because there are no defaults.
func (c *Config) SetDefaults() {}

// Validate returns all errors in the configuration.
func (c *Config) Validate() []settings.FieldError {
	if !filepath.IsAbs(c.Dir) {
		return []settings.FieldError{{Field: "dir", Value: c.Dir, Detail: "must be an absolute path"}}
	}
	return nil
}

// Build returns a fleet with this configuration.
func (c *Config) Build(name string, env targets.Env) (targets.Fleet, error) {
	f := &Fleet{dir: c.Dir, lease: env.Lease}
	f.base.Name, f.base.Parse = name, parseName
	return f, nil
}

// Target contains the keys of an autoscaler's target table that this kind uses.
type Target struct {
	// Directory is the name of a directory in the fleet's dir.
	Directory string `toml:"directory"`
}

// Validate returns all errors in the target.
func (t *Target) Validate() []settings.FieldError {
	if _, err := parseName(t.Directory); err != nil {
		return []settings.FieldError{{Field: "directory", Value: t.Directory, Detail: err.Error()}}
	}
	return nil
}

// Name returns the name of the target's directory.
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
	// lease limits writes if several hpads share the fleet.
	lease targets.Lease
	// changes is the number of files that the fleet created or renamed.
	changes atomic.Int64
	// writing serializes writes, because a write first reads the directory.
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
			continue // it has been removed in the meantime
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

// stop is the suffix of a file whose worker must end.
const stop = ".stop"

// SetReplicas creates or renames files. It fails if the directory no longer has the given version.
func (f *Fleet) SetReplicas(ctx context.Context, ref targets.Ref, n int32, version, _ string) error {
	return f.base.Scale(ctx, ref, n, "directory", func(ctx context.Context, name string) error {
		_, end, err := f.lease.Begin(ctx)
		if err != nil {
			return err
		}
		defer end()
		f.writing.Lock()
		defer f.writing.Unlock()
		r := f.read(name)
		switch {
		case r.Err != nil:
			return r.Err
		case version != "" && version != r.Version:
			return fmt.Errorf("%w: expected %s, got %s", targets.ErrConflict, version, r.Version)
		}
		count := r.SpecReplicas
		for ; count < n; count++ {
			file, err := os.CreateTemp(filepath.Join(f.dir, name), "worker-*")
			if err != nil {
				return &targets.PartialError{Reached: count, Err: fmt.Errorf("%w: %w", targets.ErrTransient, err)}
			}
			_ = file.Close()
			f.changes.Add(1)
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
			f.changes.Add(1)
			count--
		}
		return nil
	})
}
