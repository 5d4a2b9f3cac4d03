package page

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/explain"
	hpa "github.com/hpad/hpad/policy"
)

// historyRows is the maximum number of history entries in the view.
const historyRows = 50

// details contains the data for the view of one autoscaler.
type details struct {
	frame
	row
	View        api.Autoscaler
	Explanation explanationView
	Next        []string
	Metrics     []metricView
	// Instances is nil unless the request has the parameter "instances".
	Instances *api.InstanceList
	Drains    []string
	History   []entry
	// HistoryError is the error from reading the history. HistoryWarnings lists the missing parts
	// of the history.
	HistoryError    string
	HistoryWarnings []string
	Config          string
	Graph           []point
	// GraphWarnings lists the missing parts of the graph.
	GraphWarnings []string
	WhatIf        *whatIf
	// Labels describes a problem with the labels of the target.
	Labels string
	// Schedules describes the active schedules; empty without schedules.
	Schedules string
}

// explanationView explains a decision.
type explanationView struct {
	Error    string
	Time     time.Time
	Count    string
	Sentence string
	Steps    string
	// Past is set for an earlier decision. At is its time as Unix time in seconds.
	Past bool
	At   float64
	// Window is the stabilization window in seconds. Binding is the Unix time in seconds of the
	// recommendation that limits the count.
	Window       float64
	Binding      int64
	BindingCount int32
}

type metricView struct {
	Title, Values, Input, Error, Proposal, OnMissing string
	Warnings                                         []string
	Decides                                          bool
}

type entry struct {
	Time               time.Time
	Count, Why, Reason string
	Changed            bool
}

// point is a row in the table version of the graph.
type point struct {
	Time           time.Time
	Count, Desired string
	Min, Max       float64
	Proposals      string
}

// autoscaler writes the view of an autoscaler. The parameter "at" selects an earlier decision,
// "instances" reads the current instances, "whatif" simulates other settings, and "part" selects a part of
// the view.
func (p *page) autoscaler(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	view, ok := p.daemon.Autoscaler(name)
	if !ok {
		write(w, http.StatusNotFound, "none.html", &details{frame: p.frame(r, "../", "Not found"), row: row{Name: name}})
		return
	}
	query := r.URL.Query()
	v := details{frame: p.frame(r, "../", name), View: view}
	v.row = rowOf(&view, v.Now)
	v.Explanation = p.explain(r, &view, query.Get("at"), v.Zone)
	switch query.Get("part") {
	case "why":
		write(w, http.StatusOK, "why", &v)
		return
	case "instances":
		v.Instances = p.instances(r, name)
		write(w, http.StatusOK, "instances", &v)
		return
	case "whatif":
		v.WhatIf = p.whatIf(r, name)
		write(w, http.StatusOK, "whatif", &v)
		return
	}
	if query.Has("instances") {
		v.Instances = p.instances(r, name)
	}
	v.WhatIf = p.whatIf(r, name)
	p.fill(r, &v)
	write(w, http.StatusOK, "details.html", &v)
}

func (p *page) fill(r *http.Request, v *details) {
	view := &v.View
	v.Next = explain.Next(view.Next, view.Explanation(), v.Zone)
	v.Metrics = metricsOf(view, v.Now)
	for _, operation := range view.Drains {
		v.Drains = append(v.Drains, explain.DrainText(operation, v.Zone))
	}
	r = api.WithWarnings(r)
	v.History, v.HistoryError = p.history(r, v.Name, v.Zone)
	v.HistoryWarnings = api.Warnings(r.Context())
	v.Config = p.daemon.AutoscalerConfig(v.Name)
	v.Labels = explain.LabelsText(view.Discovery)
	v.Schedules = explain.SchedulesText(view.Schedules)
	r = api.WithWarnings(r)
	graph, err := p.daemon.Graph(r.Context(), v.Name, v.Now.Add(-time.Hour), v.Now)
	if err == nil {
		v.Graph = tableOf(&graph)
		if text := graph.FindHoles(view, v.Now.Add(-time.Hour), v.Now, v.Now); text != "" {
			api.Warn(r.Context(), text)
		}
		v.GraphWarnings = api.Warnings(r.Context())
	}
}

func (p *page) instances(r *http.Request, name string) *api.InstanceList {
	list, err := p.daemon.InstancesOf(r.Context(), name)
	if err != nil {
		list.Error = err.Error()
	}
	if _, err := p.access(r); err != nil {
		list = list.WithoutOutput()
	}
	return &list
}

// explain returns the explanation of the last decision, or of the decision at a given time.
func (p *page) explain(r *http.Request, view *api.Autoscaler, at string, zone *time.Location) explanationView {
	explanation := view.Explanation()
	var when time.Time
	if at != "" {
		var err error
		if when, err = api.Instant("at", at); err == nil {
			explanation, err = api.ExplainAt(r.Context(), p.daemon, *view, when)
		}
		if err != nil {
			if errors.Is(err, api.ErrUnknown) {
				err = errors.New("no decision is recorded before that time")
			}
			return explanationView{Error: err.Error(), Past: true, At: seconds(when)}
		}
	}
	y := explanationView{Past: at != "", At: seconds(when)}
	if d := explanation.Decision; d != nil {
		local := *d
		local.Time = d.Time.In(zone)
		explanation.Decision = &local
		y.Time, y.Sentence, y.Count = local.Time, explain.Sentence(local, explanation.Evaluation), explain.Count(local, explanation.Evaluation)
		if s := d.Stabilization; s != nil {
			y.Window = max(s.UpWindow, s.DownWindow).Seconds()
			if s.Binding != nil {
				y.Window = s.BindingLeaves.Sub(s.Binding.Time).Seconds()
				y.Binding, y.BindingCount = s.Binding.Time.Unix(), s.Binding.Replicas
			}
		}
	}
	var steps bytes.Buffer
	if err := explain.Write(&steps, explanation, zone); err != nil {
		y.Error = err.Error()
	}
	y.Steps = steps.String()
	return y
}

// seconds converts a time to Unix time in seconds. It returns 0 for the zero time.
func seconds(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixMilli()) / 1000
}

func metricsOf(view *api.Autoscaler, now time.Time) []metricView {
	var metrics []metricView
	for i, spec := range view.Spec.Metrics {
		var status hpa.MetricStatus
		if i < len(view.Status.Metrics) {
			status = view.Status.Metrics[i]
		}
		m := metricView{Title: explain.MetricTitle(spec), Values: explain.MetricValues(spec, status)}
		if i < len(view.Inputs) {
			m.Input = explain.InputText(view.Inputs[i])
		}
		if spec.OnMissing != nil {
			m.OnMissing = explain.OnMissingText(*spec.OnMissing)
		}
		if d := view.Decision; d != nil && i < len(d.Metrics) {
			result := &d.Metrics[i]
			if m.Error = explain.OneLine(result.Error); result.Fallback != nil {
				m.OnMissing = explain.FallbackText(result.Fallback, now)
			}
			for _, warning := range result.Warnings {
				m.Warnings = append(m.Warnings, explain.OneLine(warning))
			}
			if result.Proposes() {
				m.Proposal = fmt.Sprint(result.Proposal)
			}
			m.Decides = d.Winner != nil && *d.Winner == i
		}
		metrics = append(metrics, m)
	}
	return metrics
}

// history returns the newest entries, newest first.
func (p *page) history(r *http.Request, name string, zone *time.Location) ([]entry, string) {
	recorded, err := p.daemon.History(r.Context(), name, time.Time{}, time.Time{}, historyRows)
	if err != nil {
		return nil, err.Error()
	}
	var entries []entry
	for _, one := range slices.Backward(recorded) {
		entries = append(entries, entry{
			Time: one.Time, Count: explain.Count(one.Decision, one.Evaluation()), Why: explain.Why(one, zone),
			Reason: one.Reason, Changed: one.Changed(),
		})
	}
	return entries, ""
}

// tableRows is the approximate number of rows in the table version of the graph.
const tableRows = 24

// tableOf returns points at approximately equal intervals, newest first.
func tableOf(graph *api.Graph) []point {
	var points []point
	every := max(1, len(graph.Time)/tableRows)
	for i := len(graph.Time) - 1; i >= 0; i -= every {
		at := point{
			Time: time.Unix(graph.Time[i], 0), Count: count(graph.Replicas[i]), Desired: count(graph.Desired[i]), Min: graph.Min[i], Max: graph.Max[i],
		}
		var proposals []string
		for _, metric := range graph.Metrics {
			proposals = append(proposals, metric.Name+": "+count(metric.Proposals[i]))
		}
		at.Proposals = strings.Join(proposals, ", ")
		points = append(points, at)
	}
	return points
}

// count formats a count, which may be NaN.
func count(n float64) string {
	if !(n >= 0) {
		return "–"
	}
	return fmt.Sprintf("%.0f", n)
}

// Nodes reports whether any instance has a node.
func (v *details) Nodes() bool {
	return v.Instances != nil && slices.ContainsFunc(v.Instances.Instances, func(i api.Instance) bool { return i.Node != "" })
}

// Addresses reports whether any instance has an address.
func (v *details) Addresses() bool {
	return v.Instances != nil && slices.ContainsFunc(v.Instances.Instances, func(i api.Instance) bool { return i.Address != "" })
}

// Taken returns the reason why the last decision removes an instance, or "" if it does not.
func (v *details) Taken(one api.Instance) string {
	for _, victim := range v.View.Victims {
		if victim.ID == one.ID {
			return victim.Reason
		}
	}
	return ""
}
