package page

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/config"
	hpa "github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/settings/quantity"
	"github.com/hpad/hpad/simulate"
)

// whatIf contains the form and the result of a simulation.
type whatIf struct {
	Groups []fieldGroup
	Spans  []span
	Price  string
	// Error is the reason why there is no form or no result.
	Error  string
	Result *simulationView
}

type fieldGroup struct {
	Title  string
	Fields []field
}

// field is an input of the form. Its name is a key of the autoscaler's table.
type field struct {
	Name, Label, Value string
	// Active is the value in the active configuration.
	Active string
}

// Changed reports whether the value differs from the active configuration.
func (f field) Changed() bool { return f.Value != f.Active }

// span is a period that the form offers.
type span struct {
	Value, Label string
	Selected     bool
}

// simulationView is the result of a simulation.
type simulationView struct {
	From, Until time.Time
	Origin      simulate.Origin
	// Assumed describes the models and the delays of instances.
	Assumed []string
	Notes   []simulate.Note
	Priced  bool
	Rows    []rowView
	// Series is the JSON of the lines in the graph.
	Series string
}

// rowView contains the values of one policy as texts.
type rowView struct {
	Label, Hours, Cost, Shortage, Surplus, Changes, Utilization, AtMax, LowConfidence string
}

// modelPrefix precedes the name of a metric in the name of the field with its model. An empty field means
// the default.
const modelPrefix = "model:"

// whatIfParameter is set in requests for a simulation.
const whatIfParameter = "whatif"

// whatIf returns the form with the values of the request, and the result if the request has the
// parameter "whatif".
func (p *page) whatIf(r *http.Request, name string) *whatIf {
	query := r.URL.Query()
	v := &whatIf{Price: query.Get("price"), Spans: []span{{Value: "6h", Label: "6 hours"}, {Value: "24h", Label: "24 hours"}, {Value: "168h", Label: "7 days"}}}
	since := query.Get("since")
	for i := range v.Spans {
		v.Spans[i].Selected = v.Spans[i].Value == since || since == "" && v.Spans[i].Value == "24h"
	}
	active, err := p.daemon.Policies(name, nil)
	if err != nil {
		v.Error = err.Error()
		return v
	}
	v.Groups = fieldsOf(&active[0])
	for g := range v.Groups {
		for i := range v.Groups[g].Fields {
			if f := &v.Groups[g].Fields[i]; query.Has(f.Name) {
				f.Value = strings.TrimSpace(query.Get(f.Name))
			}
		}
	}
	if query.Has(whatIfParameter) {
		v.simulate(r, p.daemon, name)
	}
	return v
}

func (v *whatIf) simulate(r *http.Request, d Daemon, name string) {
	in := api.SimulationRequest{Until: time.Now()}
	period := 24 * time.Hour
	for _, offered := range v.Spans {
		if offered.Selected {
			period, _ = time.ParseDuration(offered.Value)
		}
	}
	in.From = in.Until.Add(-period)
	var err error
	if in.Assumptions, err = v.assumptions(); err != nil {
		v.Error = err.Error()
		return
	}
	if set := v.changes(); len(set) > 0 {
		in.Variants = []config.Variant{{Set: set}}
	}
	result, err := api.Simulate(r.Context(), d, name, in)
	if err != nil {
		v.Error = err.Error()
		return
	}
	v.Result = viewOf(result, in.Assumptions.Price > 0)
}

// assumptions returns the price and the models of metrics.
func (v *whatIf) assumptions() (a simulate.Assumptions, err error) {
	if v.Price != "" {
		if a.Price, err = strconv.ParseFloat(v.Price, 64); err != nil || !(a.Price >= 0) {
			return a, fmt.Errorf("price = %q: must be a number that is at least 0", v.Price)
		}
	}
	a.Metrics = map[string]simulate.Assumption{}
	for _, group := range v.Groups {
		for _, f := range group.Fields {
			metric, ofModel := strings.CutPrefix(f.Name, modelPrefix)
			if !ofModel || f.Value == "" {
				continue
			}
			if _, a.Metrics[metric], err = simulate.ParseAssumption(metric + "=" + f.Value); err != nil {
				return a, fmt.Errorf("model of %s: %w", metric, err)
			}
		}
	}
	return a, nil
}

// changes returns the settings that differ from the active configuration. The policies of a direction
// are set together, because the active ones may be defaults.
func (v *whatIf) changes() (set []string) {
	for _, group := range v.Groups {
		changedPolicies := slices.ContainsFunc(group.Fields, func(f field) bool { return f.ofPolicy() && f.Changed() })
		for _, f := range group.Fields {
			if !strings.HasPrefix(f.Name, modelPrefix) && (f.Changed() || f.ofPolicy() && changedPolicies) {
				set = append(set, f.Name+"="+f.Value)
			}
		}
	}
	return set
}

func (f field) ofPolicy() bool { return strings.Contains(f.Name, ".policies[") }

// fieldsOf returns the fields with the values of a policy.
func fieldsOf(p *simulate.Policy) []fieldGroup {
	add := func(fields []field, name, label, value string) []field {
		return append(fields, field{name, label, value, value})
	}
	bounds := add(nil, "min_replicas", "minimum", fmt.Sprint(*p.Spec.MinReplicas))
	bounds = add(bounds, "max_replicas", "maximum", fmt.Sprint(p.Spec.MaxReplicas))
	var goals []field
	combined := p.Spec.Metrics[len(p.Spec.Metrics)-1].Formula != ""
	for i := range p.Spec.Metrics {
		m, key := &p.Spec.Metrics[i], fmt.Sprintf("metrics[%d].", i)
		if combined && m.Formula == "" {
			continue // only the target value of the formula matters
		} else if combined {
			key = ""
		}
		label := m.Name
		switch {
		case m.Target.AverageUtilization != nil:
			goals = add(goals, key+"average_utilization", label+", percent", fmt.Sprint(*m.Target.AverageUtilization))
		case m.Target.AverageValueMilli != nil:
			goals = add(goals, key+"average_value", label+", per instance", quantity.FormatDecimal(*m.Target.AverageValueMilli))
		case m.Target.ValueMilli != nil:
			goals = add(goals, key+"value", label, quantity.FormatDecimal(*m.Target.ValueMilli))
		}
	}
	spec := p.Spec
	if spec.Behavior == nil {
		spec.Behavior = &hpa.Behavior{}
		spec = hpa.Default(spec)
	}
	var models []field
	for i, name := range simulate.MetricNames(p.Spec.Metrics) {
		if p.Spec.Metrics[i].Formula == "" {
			models = add(models, modelPrefix+name, name, "")
		}
	}
	return []fieldGroup{
		{"Targets", goals},
		{"Bounds", bounds},
		{"Scale up", rulesFields("behavior.scale_up.", spec.Behavior.ScaleUp, 0)},
		{"Scale down", rulesFields("behavior.scale_down.", spec.Behavior.ScaleDown, p.Settings.DownscaleStabilization)},
		{"Model of the load: total, ratio, queue:RATE or fixed", models},
	}
}

// rulesFields returns the fields of one direction. window is the default of the stabilization window.
func rulesFields(key string, rules *hpa.ScalingRules, window time.Duration) []field {
	if rules != nil && rules.StabilizationWindowSeconds != nil {
		window = time.Duration(*rules.StabilizationWindowSeconds) * time.Second
	}
	text := shortDuration(window)
	fields := []field{{key + "stabilization_window", "stabilization window", text, text}}
	if rules == nil {
		return fields
	}
	for i, rule := range rules.Policies {
		at, number := fmt.Sprintf("%spolicies[%d].", key, i), fmt.Sprintf("policy %d, ", i+1)
		for _, f := range [][3]string{
			{"type", "type", string(rule.Type)},
			{"value", "value", fmt.Sprint(rule.Value)},
			{"period", "period", shortDuration(time.Duration(rule.PeriodSeconds) * time.Second)},
		} {
			fields = append(fields, field{at + f[0], number + f[1], f[2], f[2]})
		}
	}
	return fields
}

// shortDuration formats a duration without zero units, such as "5m".
func shortDuration(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// viewOf returns a result as texts.
func viewOf(result *simulate.Result, priced bool) *simulationView {
	v := &simulationView{From: result.From, Until: result.Until, Origin: result.Origin, Notes: result.Notes, Priced: priced}
	for _, m := range result.Metrics {
		v.Assumed = append(v.Assumed, fmt.Sprintf("%s is simulated as %s", m.Name, m.Model))
	}
	v.Assumed = append(v.Assumed, "an instance starts in "+shortDuration(result.Startup.Duration)+" and drains in "+shortDuration(result.Drain.Duration))
	series := struct {
		Time   []int64      `json:"time"`
		Demand []*float64   `json:"demand"`
		Rows   []seriesView `json:"rows"`
	}{}
	for i, at := range result.Times {
		series.Time = append(series.Time, at.Unix())
		var demand *float64
		if result.Demand[i] >= 0 {
			demand = &result.Demand[i]
		}
		series.Demand = append(series.Demand, demand)
	}
	for i := range result.Rows {
		row := &result.Rows[i]
		label := row.Label
		if i == 0 {
			label = "active configuration"
		}
		v.Rows = append(v.Rows, rowViewOf(label, &row.Score))
		series.Rows = append(series.Rows, seriesView{label, row.Replicas})
	}
	text, _ := json.Marshal(series) // plain data cannot fail
	v.Series = string(text)
	return v
}

type seriesView struct {
	Label    string  `json:"label"`
	Replicas []int32 `json:"replicas"`
}

func rowViewOf(label string, s *simulate.Score) rowView {
	percent := func(share simulate.Measure) string {
		if share.IsZero() {
			return "-"
		}
		return strconv.FormatFloat(float64(100*share), 'f', 1, 64) + " %"
	}
	minutes := func(m simulate.Measure) string {
		if m.IsZero() {
			return "-"
		}
		return shortDuration(time.Duration(float64(m) * float64(time.Minute)).Round(time.Second))
	}
	row := rowView{
		Label: label, Hours: strconv.FormatFloat(s.InstanceHours, 'f', 1, 64), Cost: strconv.FormatFloat(s.Cost, 'f', 2, 64),
		Shortage: percent(s.Shortage), Surplus: percent(s.Surplus), Utilization: percent(s.UtilizationP95),
		Changes: strconv.FormatFloat(s.ChangesPerDay, 'f', 1, 64), AtMax: minutes(simulate.Measure(s.MinutesAtMax)), LowConfidence: minutes(s.LowConfidence),
	}
	if s.Shortage > 0 {
		row.Shortage += ", longest " + minutes(s.LongestShortage)
	}
	if s.Surplus > 0 {
		row.Surplus += ", depth " + percent(s.SurplusDepth)
	}
	return row
}
