package draft

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/hpad/hpad/daemon/kinds"
)

// UndecidedFleet and UndecidedSource stand where somebody has to name a fleet or
// a source. No configuration can have one of that name.
const (
	UndecidedFleet  = "WHICH-FLEET"
	UndecidedSource = "WHICH-SOURCE"
)

// Decide begins every note that asks for a decision.
const Decide = "DECIDE: "

// rateWindow is the span of the rates that are suggested.
const rateWindow = "2m"

// AskSource makes the metric one that is read from a source, as the type and the
// kind of fleet want it, and suggests the keys that somebody has to decide on. An
// empty source is undecided, and an empty kind one that is not known.
// Matchers are those of a Prometheus selector, as `queue="work"`.
func (m *Metric) AskSource(source, kind, matchers string) {
	m.Source = source
	if source == "" {
		m.Source = UndecidedSource
		m.Notes = append(m.Notes, Decide+"the source, and the query that it is asked.")
	} else {
		m.Notes = append(m.Notes, Decide+"the query that the source is asked.")
	}
	switch m.Type {
	case "Resource", "ContainerResource":
		m.suggestResource(kind)
	case "Instances":
		label := Key{"instance_label", "instance"}
		keys := []Key{{"match", "address"}}
		if own := kinds.Fleets[kind].InstanceLabel; own != "" {
			label.Value, keys = own, nil
		}
		m.Suggested = append([]Key{{"query", "sum by (" + label.Value + ") (" + series(m.Name, matchers) + ")"}, label}, keys...)
	default:
		m.Suggested = []Key{{"query", "sum(" + series(m.Name, matchers) + ")"}}
	}
}

// suggestResource suggests what node_exporter measures of machines.
func (m *Metric) suggestResource(kind string) {
	query := "sum by (instance) (" + series(m.Resource, "") + ")"
	switch m.Resource {
	case "cpu":
		query = `sum by (instance) (rate(node_cpu_seconds_total{mode!="idle"}[` + rateWindow + `]))`
	case "memory":
		query = "node_memory_MemTotal_bytes - node_memory_MemAvailable_bytes"
	}
	m.Suggested = []Key{
		{"query", `label_replace(` + query + `, "address", "$1", "instance", "(.*):[0-9]+")`},
		{"instance_label", "address"},
		{"match", "address"},
		{"window", rateWindow},
	}
	if m.AverageUtilization != nil {
		m.Notes = append(m.Notes, fmt.Sprintf("A percentage needs to know of what: requests = { %s = … } in the target, unless the fleet tells it.", key(m.Resource)))
	}
	if kind != "" {
		m.Notes = append(m.Notes, fmt.Sprintf("A fleet of kind %q cannot tell the use of resources itself.", kind))
	}
}

// plainName is a name of series that needs no quotes in PromQL.
var plainName = regexp.MustCompile(`^[a-zA-Z_:][a-zA-Z0-9_:]*$`)

// perSecond is how prometheus-adapter's customary rules rename a counter.
const perSecond = "_per_second"

// series returns the selector of the series that a metric is probably made of.
func series(name, matchers string) string {
	counter, isRate := strings.CutSuffix(name, perSecond)
	switch {
	case !plainName.MatchString(name):
		return selector("", strings.Join(append([]string{"__name__=" + basic(name)}, nonEmpty(matchers)...), ", "))
	case isRate:
		return "rate(" + selector(counter+"_total", matchers) + "[" + rateWindow + "])"
	case strings.HasSuffix(name, "_total"):
		return "rate(" + selector(name, matchers) + "[" + rateWindow + "])"
	}
	return selector(name, matchers)
}

func selector(name, matchers string) string {
	if matchers == "" {
		return name
	}
	return name + "{" + matchers + "}"
}

func nonEmpty(text string) []string {
	if text == "" {
		return nil
	}
	return []string{text}
}
