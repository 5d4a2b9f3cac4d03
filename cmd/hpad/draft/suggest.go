package draft

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/hpad/hpad/daemon/kinds"
)

// UndecidedFleet and undecidedSource are placeholders for the name of a fleet or a source. They are
// not valid names.
const (
	UndecidedFleet  = "WHICH-FLEET"
	undecidedSource = "WHICH-SOURCE"
)

// Decide is the prefix of a note about a value that the user must still choose.
const Decide = "DECIDE: "

// rateWindow is the time window for rates in suggested queries and keys.
const rateWindow = "2m"

// SuggestSource sets the source of the metric, and suggests keys for the metric's type and the
// fleet's kind. The source and the kind may be empty. Matchers contains Prometheus label matchers,
// for example `queue="work"`.
func (m *Metric) SuggestSource(source, kind, matchers string) {
	m.Source = source
	if source == "" {
		m.Source = undecidedSource
		m.Notes = append(m.Notes, Decide+"the source and the query.")
	} else {
		m.Notes = append(m.Notes, Decide+"the query.")
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

// suggestResource suggests queries that use metrics of node_exporter.
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
		m.Notes = append(m.Notes, fmt.Sprintf("A percentage needs a request: set requests = { %s = … } in the target, unless the fleet defines it.", key(m.Resource)))
	}
	if kind != "" {
		m.Notes = append(m.Notes, fmt.Sprintf("A fleet of kind %q does not measure resources.", kind))
	}
}

// plainName matches metric names that need no quotes in PromQL.
var plainName = regexp.MustCompile(`^[a-zA-Z_:][a-zA-Z0-9_:]*$`)

// perSecond is the suffix of rates in the usual rules of prometheus-adapter.
const perSecond = "_per_second"

// series returns a query that probably matches the metric: a selector, or the rate of a counter.
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
