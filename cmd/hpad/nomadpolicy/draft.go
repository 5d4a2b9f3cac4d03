package nomadpolicy

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hpad/hpad/cmd/hpad/draft"
	"github.com/hpad/hpad/cmd/hpad/origin"
	"github.com/hpad/hpad/targets/nomad/scaling"
)

// policy is a scaling policy in a file or a cluster.
type policy struct {
	scaling.Policy
	// place is the file and the line, or the address of the cluster.
	place string
	name  string
	// unresolved describes the attributes that depend on variables without a default.
	unresolved []string
}

// defaultNamespace is the namespace of a job without one.
const defaultNamespace = "default"

// Names returns the namespace, the names of the job and the group as one name, and the job.
func (p *policy) Names() (namespace, name, target string) {
	if p.Type == scaling.Cluster {
		return "", p.name, p.name
	}
	if namespace = p.Namespace; namespace == defaultNamespace {
		namespace = ""
	}
	if p.Job == p.Group {
		return namespace, p.Job, p.Job
	}
	return namespace, strings.Trim(p.Job+"-"+p.Group, "-"), p.Job
}

// Draft converts the policy to an autoscaler without a name.
func (p *policy) Draft(choices origin.Choices) *draft.Autoscaler {
	converted := p.Convert()
	a := &draft.Autoscaler{
		Notes:       []string{fmt.Sprintf("From the scaling policy in %s.", p.place)},
		MinReplicas: &converted.Min,
		MaxReplicas: converted.Max,
		SyncPeriod:  converted.SyncPeriod,
		Behavior:    &draft.Behavior{ScaleUp: rules(&converted.Up), ScaleDown: rules(&converted.Down)},
	}
	a.Notes = append(a.Notes, notes(converted.Notes)...)
	for _, text := range p.unresolved {
		a.Notes = append(a.Notes, draft.Decide+"the value in "+text+", which depends on variables without a default.")
	}
	if !p.Enabled {
		a.Mode, a.ModeNote = "off", "Disabled in nomad-autoscaler. To activate the autoscaler, remove mode."
	}
	for i := range converted.Metrics {
		m := &converted.Metrics[i]
		metric := draft.Metric{
			Notes: m.Notes, Type: m.Type, Name: m.Name, Resource: m.Resource, Query: m.Query,
			Value: m.Value, AverageValue: m.AverageValue, Source: m.Source,
		}
		if choices.Source != "" && m.Source != "" {
			metric.Source = choices.Source
		}
		if m.AverageUtilization > 0 {
			metric.AverageUtilization = &m.AverageUtilization
		}
		a.Metrics = append(a.Metrics, metric)
	}
	p.target(choices, a)
	return a
}

func notes(given []scaling.Note) (texts []string) {
	for _, note := range given {
		text := strings.TrimSuffix(note.Text, ".") + "."
		if note.Choice || note.Open {
			text = draft.Decide + text
		}
		texts = append(texts, text)
	}
	return texts
}

func rules(given *scaling.Rules) *draft.Rules {
	r := &draft.Rules{Tolerance: given.Tolerance, Policies: []draft.Policy{{Type: "Instances", Value: given.Instances, Period: given.Period}}}
	if given.StabilizationWindow > 0 {
		r.StabilizationWindow = &given.StabilizationWindow
	}
	return r
}

// clouds maps the target plugins of nomad-autoscaler to the keys of targets in a fleet of the kind.
var clouds = map[string]struct {
	kind string
	keys []draft.Key
}{
	"aws-asg":    {"awsasg", []draft.Key{{Name: "group", Value: "aws_asg_name"}}},
	"gce-mig":    {"gcemig", []draft.Key{{Name: "group", Value: "mig_name"}}},
	"azure-vmss": {"azurevmss", []draft.Key{{Name: "resource_group", Value: "resource_group"}, {Name: "scale_set", Value: "vm_scale_set"}}},
}

// target sets the target of the autoscaler.
func (p *policy) target(choices origin.Choices, a *draft.Autoscaler) {
	kind, plugin := "nomad", ""
	a.Target.Fleet = choices.Fleet
	if label, keys := p.Target(); p.Type == scaling.Cluster {
		plugin = label
		kind = clouds[label].kind
		for _, key := range clouds[label].keys {
			a.Target.Keys = append(a.Target.Keys, draft.Key{Name: key.Name, Value: keys[key.Value]})
		}
		for _, key := range slices.Sorted(maps.Keys(keys)) {
			if strings.HasPrefix(key, "node_") {
				a.Notes = append(a.Notes, fmt.Sprintf("Not converted: %s = %q of the target. Use victims and drain of the autoscaler.", key, keys[key]))
			}
		}
	} else {
		a.Target.Keys = []draft.Key{{Name: "job", Value: p.Job}, {Name: "group", Value: p.Group}}
		if p.Namespace != "" && p.Namespace != defaultNamespace {
			a.Target.Keys = append(a.Target.Keys, draft.Key{Name: "namespace", Value: p.Namespace})
		}
	}
	switch {
	case kind == "":
		a.Target.Notes = []string{fmt.Sprintf("%sthe target: hpad has no fleet for the target plugin %q.", draft.Decide, plugin)}
	case choices.Fleet == "" || choices.Kind != kind:
		a.Target.Notes = []string{fmt.Sprintf("%sthe fleet, whose kind is %q.", draft.Decide, kind)}
	default:
		return
	}
	a.Target.Fleet = draft.UndecidedFleet
}
