package page

import (
	"cmp"
	"fmt"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/api/apitest"
	"github.com/hpad/hpad/daemon/page"
	"github.com/hpad/hpad/policy"
)

// hostile is an untrusted label value that contains markup.
const hostile = `<img src=x onerror="window.broken=1">`

// fakeDaemon is an in-memory daemon with autoscalers in every state.
type fakeDaemon struct{ *apitest.Daemon }

func (f *fakeDaemon) AutoscalerConfig(name string) string {
	return fmt.Sprintf("[autoscalers.%q]\nmax_replicas = 20\n", name)
}

// newFakePage serves the page with write access. The autoscalers are named "shop-00" and so on,
// except the last one, whose name is hostile.
func newFakePage(t *testing.T, count int) string {
	t.Helper()
	now := time.Now()
	d := newDaemon(now, "node-1", api.Instance{ID: "i-1", Name: "instance-1"}, api.Instance{ID: "i-2", Name: hostile, Readiness: "False"})
	d.Alive.RefusedReload = "hpad.toml:3: no such key"
	d.State.Problems = []api.Problem{{Subject: "source prom", Message: "connection refused"}, {Subject: "fleet " + hostile, Message: "no response"}}
	digits := len(fmt.Sprint(count))
	for n := range count {
		name := fmt.Sprintf("shop-%0*d", digits, n)
		if n == count-1 {
			name = hostile
		}
		d.add(name, n, now)
	}
	return d.serve(t)
}

// newShop serves the page for the screenshots in the documentation.
func newShop(t *testing.T) string {
	t.Helper()
	now := time.Now()
	d := newDaemon(now, "client-03", api.Instance{ID: "i-1", Name: "checkout.app[0]"}, api.Instance{ID: "i-2", Name: "checkout.app[1]"})
	d.State.Problems = []api.Problem{{Subject: "source prom", Message: "server returned 503 Service Unavailable"}}
	for n, name := range []string{"checkout", "images", "mail", "search", "thumbnails", "webhooks"} {
		d.add(name, []int{4, 0, 1, 3, 6, 8}[n], now)
	}
	return d.serve(t)
}

// newDaemon returns a daemon with running instances, which are ready by default.
func newDaemon(now time.Time, node string, instances ...api.Instance) *fakeDaemon {
	for n := range instances {
		one := &instances[n]
		one.Node, one.Phase, one.Started = node, "Running", now.Add(-time.Hour)
		one.Readiness = cmp.Or(one.Readiness, "True")
	}
	return &fakeDaemon{&apitest.Daemon{
		Alive: api.Health{Healthy: true}, State: api.Readiness{Ready: true}, Drawn: map[string]api.Graph{},
		Listed: api.InstanceList{Time: now, Instances: instances},
	}}
}

// add adds an autoscaler. Only the first 50 have a chart and a history.
func (f *fakeDaemon) add(name string, n int, now time.Time) {
	view := autoscaler(name, n, now)
	f.List = append(f.List, view)
	if len(f.List) <= 50 {
		f.Drawn[name] = drawn(n, now)
		f.Recorded = append(f.Recorded, api.Recorded{Autoscaler: name, Time: view.Decision.Time, Reason: "MetricsAtTarget", Decision: *view.Decision})
	}
}

// serve serves the page with write access.
func (f *fakeDaemon) serve(t *testing.T) string {
	t.Helper()
	return serveDaemon(t, f)
}

func serveDaemon(t *testing.T, d page.Daemon) string {
	t.Helper()
	handler := page.New(d, api.Full, api.NewHandler(d, prometheus.NewRegistry(), api.Full))
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.URL
}

func autoscaler(name string, n int, now time.Time) api.Autoscaler {
	goal := int64(10_000)
	spec := policy.Default(policy.Spec{MaxReplicas: 20, Metrics: []policy.MetricSpec{{
		Type: policy.ExternalMetric, Name: "load", Target: policy.MetricTarget{Type: policy.AverageValueTarget, AverageValueMilli: &goal},
	}}})
	replicas := int32(3 + n%7)
	reading := policy.Reading{ValuesMilli: []int64{int64(replicas) * 9_000}}
	if n%4 == 3 {
		reading = policy.Reading{ValuesMilli: []int64{int64(replicas) * 13_000}}
	}
	if n%4 == 1 {
		reading = policy.Reading{Error: "server returned 503 Service Unavailable"}
	}
	observation := policy.Observation{SpecReplicas: replicas, StatusReplicas: replicas, Metrics: []policy.Reading{reading}}
	d := policy.Decide(policy.Settings{Tolerance: 0.1}, spec, policy.Memory{}, policy.Status{}, observation, now)
	view := api.Autoscaler{
		Name: name, Reference: "prod/" + name, Kind: "nomad", Created: now.Add(-time.Hour), Spec: spec, Status: d.Status, Decision: &d,
		SyncPeriodSeconds: 15, Evaluation: api.Evaluation{Last: now, Reason: "MetricsAtTarget", Error: d.Error},
		Inputs: []api.Input{{Source: "prom", Query: "sum(rate(http_requests_total[1m]))"}}, Instances: api.Instances{Ready: replicas},
	}
	switch n % 4 {
	case 2:
		view.Pauses = []policy.Pause{{Message: "paused by alice until tomorrow: the sale"}}
	case 3:
		view.Status.DesiredReplicas, view.Evaluation.Late = d.DesiredReplicas, uint64(n)
	}
	if name == hostile {
		view.Labels = map[string]string{"hpad.enable": hostile}
		view.Discovery = &api.Discovered{Reference: view.Reference, State: api.DiscoveredInvalid, Problem: "label hpad.max: " + hostile}
	}
	return view
}

// drawn returns a graph that covers one hour.
func drawn(n int, now time.Time) api.Graph {
	var g api.Graph
	metric := api.GraphMetric{Name: "load"}
	for i := range 240 {
		g.Time = append(g.Time, now.Add(time.Duration(i-240)*15*time.Second).Unix())
		count := float64(3 + (i/20+n+3)%7) // ends at the autoscaler's count
		g.Replicas, g.Desired = append(g.Replicas, count), append(g.Desired, count)
		g.Min, g.Max = append(g.Min, 1), append(g.Max, 20)
		metric.Proposals, metric.Values = append(metric.Proposals, float64(3+(min(i+4, 239)/20+n+3)%7)), append(metric.Values, 9)
	}
	g.Metrics = []api.GraphMetric{metric}
	return g
}
