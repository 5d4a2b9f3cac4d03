// Package apitest provides an in-memory daemon for tests of the API.
package apitest

import (
	"context"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/simulate"
	"github.com/hpad/hpad/targets"
)

// Daemon is an [api.Daemon] that returns the values of its fields.
type Daemon struct {
	// List is sorted by name.
	List     []api.Autoscaler
	Alive    api.Health
	Exported string
	// Listed and ListErr are the results of InstancesOf.
	Listed  api.InstanceList
	ListErr error
	// Output is written by WriteLogs, unless ListErr is set.
	Output string
	// Groups and ListErr are the results of Endpoints. Asked is the target in the last call.
	Groups []api.EndpointGroup
	Asked  targets.Ref

	State      api.Readiness
	Targets    []api.Discovered
	TOML       string
	File       string
	Recorded   []api.Recorded
	HistoryErr error
	// Lacks is a warning that History adds to the response. It may be empty.
	Lacks string
	// Passes and QueriedPasses are the results of Recording and QueriedRecording. Simulated are the
	// policies; nil means the policy of the autoscaler. DataErr is the error of all three.
	Passes, QueriedPasses simulate.Recording
	Simulated             []simulate.Policy
	DataErr               error
	// Drawn maps autoscalers to their graphs.
	Drawn    map[string]api.Graph
	Verified api.Verification
	// ReloadErr is the error of a reload. OnReload is called during a reload. Both may be nil.
	ReloadErr error
	OnReload  func()
	Changes   []config.Change
	// Reloads is the number of reloads. ReloadCtx is the context's error at the end of the last
	// reload.
	Reloads   int
	ReloadCtx error
	// Paused lists the active pauses. ActErr is the error of actions. Scaled lists the requested
	// counts.
	Paused []policy.Pause
	ActErr error
	Scaled []policy.Command
}

// AutoscalersAfter returns the elements of List whose names sort after a name.
func (d *Daemon) AutoscalersAfter(name string) iter.Seq[api.Autoscaler] {
	return func(yield func(api.Autoscaler) bool) {
		for _, view := range d.List {
			if (name == "" || view.Name > name) && !yield(view) {
				return
			}
		}
	}
}

// Autoscaler returns an element of List.
func (d *Daemon) Autoscaler(name string) (api.Autoscaler, bool) {
	i := slices.IndexFunc(d.List, func(view api.Autoscaler) bool { return view.Name == name })
	if i < 0 {
		return api.Autoscaler{}, false
	}
	return d.List[i], true
}

// Endpoints returns Groups and ListErr.
func (d *Daemon) Endpoints(_ context.Context, ref targets.Ref) ([]api.EndpointGroup, error) {
	d.Asked = ref
	return d.Groups, d.ListErr
}

// InstancesOf returns Listed.
func (d *Daemon) InstancesOf(context.Context, string) (api.InstanceList, error) {
	return d.Listed, d.ListErr
}

// WriteLogs writes Output and returns ListErr.
func (d *Daemon) WriteLogs(_ context.Context, _, _ string, _ targets.LogQuery, to io.Writer) error {
	if d.ListErr != nil {
		return d.ListErr
	}
	_, err := io.WriteString(to, d.Output)
	return err
}

// ExportState writes Exported.
func (d *Daemon) ExportState(_ context.Context, to io.Writer, _ bool) error {
	_, err := io.WriteString(to, d.Exported)
	return err
}

// Health returns Alive.
func (d *Daemon) Health() api.Health { return d.Alive }

// Readiness returns State.
func (d *Daemon) Readiness() api.Readiness { return d.State }

// Discovered returns Targets.
func (d *Daemon) Discovered() []api.Discovered { return d.Targets }

// Config returns TOML.
func (d *Daemon) Config() string { return d.TOML }

// ConfigFile returns File.
func (d *Daemon) ConfigFile() string { return d.File }

// History selects entries from Recorded by the same rules as the real daemon.
func (d *Daemon) History(ctx context.Context, name string, from, to time.Time, limit int) ([]api.Recorded, error) {
	if d.Lacks != "" {
		api.Warn(ctx, d.Lacks)
		api.Warn(ctx, d.Lacks)
	}
	found := d.RecordedOf(name)
	found = slices.DeleteFunc(found, func(entry api.Recorded) bool {
		return entry.Time.Before(from) || !to.IsZero() && !entry.Time.Before(to)
	})
	if limit > 0 {
		found = found[max(0, len(found)-limit):]
	}
	return found, d.HistoryErr
}

// Graph returns an element of Drawn, or ErrUnknown.
func (d *Daemon) Graph(_ context.Context, name string, _, _ time.Time) (api.Graph, error) {
	if d.Drawn == nil {
		return api.Graph{}, fmt.Errorf("no data points are stored: %w", api.ErrUnknown)
	}
	return d.Drawn[name], nil
}

// VerifyHistory returns Verified, or an empty result if the autoscaler has no entries.
func (d *Daemon) VerifyHistory(_ context.Context, name string, _, _ time.Time) (api.Verification, error) {
	if len(d.RecordedOf(name)) == 0 {
		return api.Verification{Engine: d.Verified.Engine}, d.HistoryErr
	}
	return d.Verified, d.HistoryErr
}

// RecordedOf returns the entries of an autoscaler, oldest first. An empty name selects all
// autoscalers.
func (d *Daemon) RecordedOf(name string) []api.Recorded {
	found := slices.DeleteFunc(slices.Clone(d.Recorded), func(entry api.Recorded) bool { return name != "" && entry.Autoscaler != name })
	slices.SortStableFunc(found, func(a, b api.Recorded) int { return a.Time.Compare(b.Time) })
	return found
}

// Reload returns Changes or ReloadErr.
func (d *Daemon) Reload(ctx context.Context) ([]config.Change, error) {
	if d.OnReload != nil {
		d.OnReload()
	}
	d.Reloads++
	d.ReloadCtx = ctx.Err()
	if d.ReloadErr != nil {
		return nil, d.ReloadErr
	}
	return d.Changes, nil
}

// ReloadChanges returns Changes or ReloadErr.
func (d *Daemon) ReloadChanges(context.Context) ([]config.Change, error) {
	return d.Changes, d.ReloadErr
}

// Pauses returns Paused.
func (d *Daemon) Pauses() []policy.Pause { return d.Paused }

// Pause adds a valid pause to Paused and returns it. It replaces an earlier pause of the same
// scope.
func (d *Daemon) Pause(_ context.Context, pause policy.Pause, lasts time.Duration) (policy.Pause, error) {
	if _, known := d.Autoscaler(pause.Autoscaler); pause.Autoscaler != "" && !known {
		return pause, fmt.Errorf("%s: %w", pause.Scope, api.ErrUnknown)
	}
	if pause.Fleet != "" && !slices.ContainsFunc(d.List, func(view api.Autoscaler) bool { return strings.HasPrefix(view.Reference, pause.Fleet+"/") }) {
		return pause, fmt.Errorf("%s: %w", pause.Scope, api.ErrUnknown)
	}
	if d.ActErr != nil {
		return pause, d.ActErr
	}
	if pause.Direction == "" {
		pause.Direction = policy.BothDirections
	}
	pause.Since = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	if lasts > 0 {
		pause.Until = pause.Since.Add(lasts)
	}
	pause.Message = strings.TrimSpace("paused for " + pause.String() + ": " + pause.Reason)
	d.Paused = append(slices.DeleteFunc(d.Paused, func(p policy.Pause) bool { return p.Scope == pause.Scope }), pause)
	return pause, nil
}

// Resume removes a pause from Paused.
func (d *Daemon) Resume(_ context.Context, scope policy.Scope, _ string) (policy.Pause, error) {
	i := slices.IndexFunc(d.Paused, func(p policy.Pause) bool { return p.Scope == scope })
	if i < 0 {
		if _, known := d.Autoscaler(scope.Autoscaler); scope.Autoscaler != "" && !known {
			return policy.Pause{}, fmt.Errorf("%s: %w", scope, api.ErrUnknown)
		}
		return policy.Pause{}, fmt.Errorf("%s: %w", scope, api.ErrNotPaused)
	}
	ended := d.Paused[i]
	d.Paused = slices.Delete(d.Paused, i, i+1)
	return ended, nil
}

// ScaleTo adds a command to Scaled.
func (d *Daemon) ScaleTo(_ context.Context, name string, replicas int32, force bool, author string) error {
	if _, ok := d.Autoscaler(name); !ok {
		return api.ErrUnknown
	}
	d.Scaled = append(d.Scaled, policy.Command{Replicas: replicas, Force: force, Author: author})
	return d.ActErr
}

// Restart returns ActErr, or an api.ErrUnknown.
func (d *Daemon) Restart(ctx context.Context, name string) error { return d.EvaluateNow(ctx, name) }

// EvaluateNow returns ActErr, or an api.ErrUnknown.
func (d *Daemon) EvaluateNow(_ context.Context, name string) error {
	if _, ok := d.Autoscaler(name); !ok {
		return api.ErrUnknown
	}
	return d.ActErr
}

// Recording returns Passes.
func (d *Daemon) Recording(context.Context, string, time.Time, time.Time) (simulate.Recording, error) {
	return d.Passes, d.DataErr
}

// QueriedRecording returns QueriedPasses.
func (d *Daemon) QueriedRecording(context.Context, string, time.Time, time.Time) (simulate.Recording, error) {
	return d.QueriedPasses, d.DataErr
}

// Policies returns Simulated, or the policy of the autoscaler's spec.
func (d *Daemon) Policies(name string, _ []config.Variant) ([]simulate.Policy, error) {
	view, ok := d.Autoscaler(name)
	if !ok {
		return nil, api.ErrUnknown
	}
	if d.Simulated == nil {
		return []simulate.Policy{{Label: "active", Spec: view.Spec, SyncPeriod: time.Duration(view.SyncPeriodSeconds * float64(time.Second))}}, d.DataErr
	}
	return d.Simulated, d.DataErr
}
