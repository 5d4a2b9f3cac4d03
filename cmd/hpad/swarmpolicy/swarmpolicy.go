// Package swarmpolicy reads services of Docker Swarm with the labels of other autoscalers, from stack
// files and from the output of "docker service inspect".
package swarmpolicy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/hpad/hpad/cmd/hpad/draft"
	"github.com/hpad/hpad/cmd/hpad/origin"
)

// dialect is the labels of one autoscaler.
type dialect struct {
	name string
	// enable is the label that must be "true"; empty if a bound is sufficient. prefix is the prefix of
	// all labels.
	enable, prefix string
	// minimum and maximum are labels with bounds, and the defaults apply without them. A default of 0
	// means that there is none.
	minimum, maximum           string
	defaultMinimum, defaultMax int32
	// cpu reports whether the autoscaler adds a replica above 85 % of a core and removes one below 25 %.
	cpu bool
}

// dialects are the autoscalers in public use.
var dialects = []dialect{
	{name: "docker-swarm-autoscaler", enable: "swarm.autoscaler", prefix: "swarm.autoscaler", minimum: "swarm.autoscaler.minimum", maximum: "swarm.autoscaler.maximum", defaultMinimum: 1, cpu: true},
	{name: "swarm-autoscaler", enable: "swarm.autoscale", prefix: "swarm.autoscale", minimum: "swarm.autoscale.min", maximum: "swarm.autoscale.max", defaultMinimum: 2, defaultMax: 15, cpu: true},
	{name: "docker-scaler", prefix: "com.df.scale", minimum: "com.df.scaleMin", maximum: "com.df.scaleMax", defaultMinimum: 1},
	{name: "Orbiter", enable: "orbiter", prefix: "orbiter", defaultMinimum: 1},
}

// Origin is the origin of Swarm's labels.
type Origin struct{}

// Recognizes reports whether a file contains labels of a dialect.
func (Origin) Recognizes(text []byte) bool {
	return (bytes.Contains(text, []byte("services:")) || bytes.Contains(text, []byte(`"Labels"`))) &&
		slices.ContainsFunc(dialects, func(d dialect) bool { return bytes.Contains(text, []byte(d.prefix)) })
}

// stack is a stack file.
type stack struct {
	Name     string `yaml:"name"`
	Services map[string]struct {
		Deploy struct {
			Labels yaml.Node `yaml:"labels"`
		} `yaml:"deploy"`
		Labels yaml.Node `yaml:"labels"`
	} `yaml:"services"`
}

// inspected is the output of "docker service inspect".
type inspected []struct {
	Spec struct {
		Name   string            `yaml:"Name"`
		Labels map[string]string `yaml:"Labels"`
	} `yaml:"Spec"`
}

// Read returns the services of a file that have labels of a dialect.
func (Origin) Read(file string, text []byte) (policies []origin.Policy, _ []origin.Skipped, _ error) {
	fail := func(line int, format string, args ...any) ([]origin.Policy, []origin.Skipped, error) {
		return nil, nil, errors.Join(&origin.Error{File: file, Line: line, Detail: fmt.Sprintf(format, args...)})
	}
	var node yaml.Node
	if err := yaml.NewDecoder(bytes.NewReader(text)).Decode(&node); err != nil && !errors.Is(err, io.EOF) {
		return fail(0, "not valid YAML: %v", err)
	}
	if detail := origin.Oversized(&node); detail != "" {
		return fail(node.Line, "%s", detail)
	}
	var services inspected
	if node.Decode(&services) == nil {
		for _, s := range services {
			policies = appendService(policies, service{file: file, line: 1, name: s.Spec.Name}, s.Spec.Labels)
		}
		return policies, nil, nil
	}
	var given stack
	if err := node.Decode(&given); err != nil {
		return fail(node.Line, "is not a stack file: %v", err)
	}
	for _, name := range slices.Sorted(maps.Keys(given.Services)) {
		s := given.Services[name]
		labels := labelsOf(&s.Labels)
		maps.Copy(labels, labelsOf(&s.Deploy.Labels))
		policies = appendService(policies, service{file: file, line: max(s.Deploy.Labels.Line, s.Labels.Line), name: name, stack: given.Name}, labels)
	}
	return policies, nil, nil
}

// labelsOf returns the labels in a map or in a list of "KEY=VALUE".
func labelsOf(node *yaml.Node) map[string]string {
	labels := map[string]string{}
	var list []string
	if node.IsZero() {
		return labels
	}
	if node.Kind == yaml.SequenceNode && node.Decode(&list) == nil {
		for _, label := range list {
			key, value, _ := strings.Cut(label, "=")
			labels[key] = value
		}
		return labels
	}
	_ = node.Decode(&labels) // no other form is valid
	return labels
}

// service is a service with the labels of a dialect.
type service struct {
	file        string
	line        int
	stack, name string
	dialect     *dialect
	labels      map[string]string
}

func appendService(policies []origin.Policy, s service, labels map[string]string) []origin.Policy {
	for i := range dialects {
		d := &dialects[i]
		_, bounded := labels[d.maximum]
		if d.enable != "" && labels[d.enable] == "true" || d.enable == "" && bounded {
			s.dialect, s.labels = d, labels
			return append(policies, &s)
		}
	}
	return policies
}

// Names returns the name of the service.
func (s *service) Names() (namespace, name, target string) { return s.stack, s.name, s.name }

// Draft converts the labels to an autoscaler without a name.
func (s *service) Draft(choices origin.Choices) *draft.Autoscaler {
	a := &draft.Autoscaler{Notes: []string{fmt.Sprintf("From the labels of %s of service %q in %s:%d.", s.dialect.name, s.name, s.file, s.line)}}
	minimum := s.bound(a, s.dialect.minimum, s.dialect.defaultMinimum)
	a.MinReplicas, a.MaxReplicas = &minimum, s.bound(a, s.dialect.maximum, s.dialect.defaultMax)
	if a.MaxReplicas == 0 {
		a.Notes = append(a.Notes, draft.Decide+"max_replicas: the labels contain no maximum.")
	}
	if s.dialect.cpu {
		a.Metrics = []draft.Metric{{
			Notes: []string{draft.Decide + "the target: a replica was added above 85 % of a core and removed below 25 %. " +
				"0.77 cores per replica adds replicas above 85 % as well; a lower value, such as 0.5, keeps more in reserve."},
			Type: "Resource", Resource: "cpu", AverageValue: "0.77",
		}}
	} else {
		metric := draft.Metric{Type: "External", Name: "load", Notes: []string{fmt.Sprintf("%s only receives requests to scale up or down, for example from alerts. Use the query of the alert.", s.dialect.name)}}
		metric.SuggestSource(choices.Source, choices.Kind, "")
		metric.Suggested = nil
		a.Metrics = []draft.Metric{metric}
	}
	for _, label := range slices.Sorted(maps.Keys(s.labels)) {
		if strings.HasPrefix(label, s.dialect.prefix) && label != s.dialect.enable && label != s.dialect.minimum && label != s.dialect.maximum {
			a.Notes = append(a.Notes, fmt.Sprintf("Not converted: %s = %q.", label, s.labels[label]))
		}
	}
	a.Target = draft.Target{Fleet: draft.UndecidedFleet, Keys: []draft.Key{{Name: "service", Value: strings.TrimPrefix(s.stack+"_"+s.name, "_")}}}
	if choices.Fleet == "" {
		a.Target.Notes = []string{draft.Decide + `the fleet, whose kind is "swarm". The name of a service begins with the name of its stack.`}
		return a
	}
	a.Target.Fleet = choices.Fleet
	if s.stack == "" {
		a.Target.Notes = []string{"Guessed from the service: its name begins with the name of its stack."}
	}
	return a
}

// bound returns the value of a label, or the default.
func (s *service) bound(a *draft.Autoscaler, label string, fallback int32) int32 {
	text, given := s.labels[label]
	if label == "" || !given {
		return fallback
	}
	value, err := strconv.ParseInt(text, 10, 32)
	if err != nil || value < 0 {
		a.Notes = append(a.Notes, fmt.Sprintf("%sthe label %s: %q is not a number of replicas.", draft.Decide, label, text))
		return fallback
	}
	return int32(value)
}
