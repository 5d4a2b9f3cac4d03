package api_test

import (
	"context"
	"errors"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/policy"
)

// fakeDaemon is a daemon in memory.
type fakeDaemon struct {
	autoscalers []api.Autoscaler
	health      api.Health
	readiness   api.Readiness
	config      string
	discovered  []api.Discovered
	history     map[string][]api.Recorded
	historyErr  error
	reloadErr   error
	reloads     int
	// reloadCtx is the state of the context at the end of the last reload.
	reloadCtx error
	// onReload runs inside of a reload.
	onReload func()
}

func (f *fakeDaemon) AutoscalersAfter(name string) iter.Seq[api.Autoscaler] {
	return func(yield func(api.Autoscaler) bool) {
		for _, view := range f.autoscalers {
			if (name == "" || view.Name > name) && !yield(view) {
				return
			}
		}
	}
}

func (f *fakeDaemon) Autoscaler(name string) (api.Autoscaler, bool) {
	for _, view := range f.autoscalers {
		if view.Name == name {
			return view, true
		}
	}
	return api.Autoscaler{}, false
}

func (f *fakeDaemon) Health() api.Health           { return f.health }
func (f *fakeDaemon) Readiness() api.Readiness     { return f.readiness }
func (f *fakeDaemon) Discovered() []api.Discovered { return f.discovered }
func (f *fakeDaemon) Config() string               { return f.config }

// History follows the rules of the store's.
func (f *fakeDaemon) History(_ context.Context, name string, from, to time.Time, limit int) ([]api.Recorded, error) {
	var found []api.Recorded
	entries := f.history[name]
	if name == "" {
		for _, each := range slices.Sorted(maps.Keys(f.history)) {
			entries = append(entries, f.history[each]...)
		}
		slices.SortStableFunc(entries, func(a, b api.Recorded) int { return a.Time.Compare(b.Time) })
	}
	for _, entry := range entries {
		if !entry.Time.Before(from) && (to.IsZero() || entry.Time.Before(to)) {
			found = append(found, entry)
		}
	}
	if limit > 0 && len(found) > limit {
		found = found[len(found)-limit:]
	}
	return found, f.historyErr
}

func (f *fakeDaemon) Reload(ctx context.Context) error {
	if f.onReload != nil {
		f.onReload()
	}
	f.reloads++
	f.reloadCtx = ctx.Err()
	return f.reloadErr
}

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// twoAutoscalers is a daemon with "checkout", which has a decision and an event,
// and "käse/1", which has nothing yet and a name that paths have to escape.
func twoAutoscalers() *fakeDaemon {
	return &fakeDaemon{
		autoscalers: []api.Autoscaler{
			{
				Name: "checkout", Reference: "prod/checkout/api", Kind: "nomad", Created: noon.Add(-time.Hour),
				Spec:              policy.Spec{MaxReplicas: 40},
				Status:            policy.Status{CurrentReplicas: 5, DesiredReplicas: 7},
				SyncPeriodSeconds: 15,
				Evaluation:        api.Evaluation{Last: noon, Next: noon.Add(15 * time.Second), DurationSeconds: 0.1},
				Decision:          &policy.Decision{Time: noon, Case: policy.CaseMetrics, CurrentReplicas: 5, DesiredReplicas: 7, Write: true},
				Inputs:            []api.Input{{Source: "prom", Query: "up"}},
				Events: []api.Event{{
					Event: policy.Event{Kind: policy.NormalEvent, Reason: "SuccessfulRescale", Message: "New size: 7"},
					Count: 1, First: noon, Last: noon,
				}},
			},
			{Name: "käse/1", Reference: "local/käse", Kind: "process", SyncPeriodSeconds: 15},
		},
		health:    api.Health{Healthy: true, LastTick: noon},
		readiness: api.Readiness{Ready: true},
		config:    "[daemon]\nlisten = \"127.0.0.1:4720\"\n",
		reloadErr: nil,
	}
}

var errBadConfig = errors.New("/etc/hpad/hpad.toml:3: autoscalers.checkout.max_replicas = 0: must be at least 1")

// metricWithTolerance is a result whose upper tolerance is as given.
func metricWithTolerance(up float64) policy.MetricResult {
	return policy.MetricResult{Type: policy.ResourceMetric, Name: "cpu", ToleranceUp: up}
}

// asShown compares decisions by what the API shows of them.
var asShown = cmpopts.IgnoreUnexported(policy.Decision{})
