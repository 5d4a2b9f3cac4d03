// Package cloudpolicy reads the scaling policies that the clients of AWS, Google Cloud and Azure print
// as JSON.
package cloudpolicy

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"

	"github.com/hpad/hpad/cmd/hpad/draft"
	"github.com/hpad/hpad/cmd/hpad/origin"
)

// Origin is the origin of the policies of clouds.
type Origin struct{}

// recognized matches a key that only these policies have.
var recognized = regexp.MustCompile(`"(ScalingPolicies|autoscalingPolicy|targetResourceUri)"\s*:`)

// Recognizes reports whether a file contains policies of a cloud.
func (Origin) Recognizes(text []byte) bool { return recognized.Match(text) }

// Read returns the policies of a file: one for each group of instances.
func (Origin) Read(file string, text []byte) (policies []origin.Policy, _ []origin.Skipped, _ error) {
	var list []json.RawMessage
	if json.Unmarshal(text, &list) != nil {
		list = []json.RawMessage{text}
	}
	for _, element := range list {
		var one struct {
			awsPolicies
			gceAutoscaler
			azureSetting
		}
		if err := json.Unmarshal(element, &one); err != nil {
			return nil, nil, errors.Join(&origin.Error{File: file, Line: 1, Detail: fmt.Sprintf("is not the JSON of a cloud's client: %v", err)})
		}
		switch {
		case len(one.ScalingPolicies) > 0:
			policies = append(policies, one.groups(file)...)
		case one.AutoscalingPolicy != nil:
			policies = append(policies, one.gceAutoscaler.group(file))
		case one.TargetResourceURI != "":
			policies = append(policies, one.azureSetting.group(file))
		}
	}
	return policies, nil, nil
}

// group is a group of instances with its policies.
type group struct {
	file string
	// kind is the kind of the fleet, and keys identify the target in it.
	kind  string
	keys  []draft.Key
	name  string
	draft draft.Autoscaler
}

// Names returns the name of the group.
func (g *group) Names() (namespace, name, target string) { return "", g.name, g.name }

// Draft returns the autoscaler of the group without a name.
func (g *group) Draft(choices origin.Choices) *draft.Autoscaler {
	a := g.draft
	a.Notes = append([]string{fmt.Sprintf("From the policies of %q in %s.", g.name, g.file)}, a.Notes...)
	a.Target = draft.Target{Fleet: choices.Fleet, Keys: g.keys}
	if choices.Fleet == "" || choices.Kind != g.kind {
		a.Target.Fleet = draft.UndecidedFleet
		a.Target.Notes = []string{fmt.Sprintf("%sthe fleet, whose kind is %q.", draft.Decide, g.kind)}
	}
	a.Metrics = slices.Clone(a.Metrics)
	for i := range a.Metrics {
		m := &a.Metrics[i]
		suggested := m.Suggested
		m.SuggestSource(choices.Source, g.kind, "")
		if suggested != nil {
			m.Suggested = suggested
		}
	}
	return &a
}

// decide adds a note about an open decision.
func (g *group) decide(format string, args ...any) {
	g.draft.Notes = append(g.draft.Notes, draft.Decide+fmt.Sprintf(format, args...))
}

// omit adds a note about a field without an equivalent.
func (g *group) omit(format string, args ...any) {
	g.draft.Notes = append(g.draft.Notes, "Not converted: "+fmt.Sprintf(format, args...)+".")
}

// cpu adds a metric for the cpu utilization of the instances.
func (g *group) cpu(percent float64) {
	g.draft.Metrics = append(g.draft.Metrics, draft.Metric{Type: "Resource", Resource: "cpu", AverageUtilization: new(max(int32(percent+0.5), 1))})
}

// external adds a metric of type External with a target per instance. The query is a suggestion.
func (g *group) external(name string, average float64, exporter, query string) {
	m := draft.Metric{Type: "External", Name: name, AverageValue: number(average), Notes: []string{"The usual origin of this value is " + exporter + "."}}
	m.Suggested = []draft.Key{}
	if query != "" {
		m.Suggested = []draft.Key{{Name: "query", Value: query}}
	}
	g.draft.Metrics = append(g.draft.Metrics, m)
}

// steps adds a note about a policy that changes the count in steps.
func (g *group) steps(name, condition, change string) {
	g.decide("policy %q: it changes the count by %s %s, and hpad has no steps. Set a target value of the metric below an upper threshold, so that the count follows the value in proportion; "+
		"to keep the size of the steps, add policies such as { type = \"Instances\", value = 1, period = \"5m\" } to behavior.", name, change, condition)
}

func number(value float64) string {
	text, _ := json.Marshal(value) // always finite
	return string(text)
}
