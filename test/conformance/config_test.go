package conformance

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/test/conformance/sim"
)

func (s *side) configure() {
	var b strings.Builder
	c := &s.config
	p := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	p("[daemon]")
	p("listen = %q", "")
	p("socket = %q", "")
	p("state_dir = %q", filepath.Join(s.dir, "state"))
	p("sync_period = %q", c.Period)
	p("tolerance = %s", strconv.FormatFloat(c.Tolerance, 'f', -1, 64))
	p("downscale_stabilization = %q", c.Downscale)
	p("cpu_initialization_period = %q", c.CPUInit)
	p("initial_readiness_delay = %q", c.ReadyDelay)
	p("scale_to_zero = %t", c.ScaleToZero)
	p("kubernetes = %q", cmp.Or(s.scenario.Kubernetes, "1.37"))
	if s.scenario.Strict {
		p("compat = %q", "strict")
	}
	name := filepath.Base(s.dir)
	for i := range max(1, s.scenario.Fleets) {
		p("[fleets.f%d]\nkind = %q\nworld = %q\nnonce = %d", i, "world", name, s.nonce)
		if s.scenario.Labels {
			p("discover = true\nlabel_limits = { max_replicas = 100000, sync_period = \"1s\" }")
		}
		if s.scenario.Prometheus {
			p("[sources.s%d]\nkind = %q\nurl = %q\nmax_concurrent = %d", i, "prometheus", s.url+"/"+name, 20+s.nonce)
		} else {
			p("[sources.s%d]\nkind = %q\nworld = %q\nnonce = %d", i, "world", name, s.nonce)
		}
	}
	for i := range s.scenario.Autoscalers {
		a := &s.scenario.Autoscalers[i]
		spec, there := s.world.Targets[a.Name].Spec(s.now())
		switch text, converted := s.converted[a.Name]; {
		case !there || a.Idle || s.scenario.Labels:
		case converted:
			p("%s", text)
		default:
			writeAutoscaler(p, a, &spec, s.scenario.FleetOf(i))
		}
	}
	if err := os.WriteFile(s.file(), []byte(b.String()), 0o640); err != nil {
		s.t.Fatal(err)
	}
}

func writeAutoscaler(p func(string, ...any), a *sim.Autoscaler, spec *sim.Spec, fleet int) {
	p("[autoscalers.%s]", a.Name)
	requests := ""
	if a.Fleet.ByConfig && a.Fleet.Whole != nil {
		var parts []string
		for _, name := range sortedKeys(a.Fleet.Whole) {
			parts = append(parts, fmt.Sprintf("%s = \"%dm\"", name, a.Fleet.Whole[name]))
		}
		requests = ", requests = { " + strings.Join(parts, ", ") + " }"
	}
	target := cmp.Or(spec.Target, a.Name)
	p("target = { fleet = \"f%d\", service = %q%s }", fleet, target, requests)
	if a.Period > 0 {
		p("sync_period = %q", a.Period)
	}
	if spec.Min != nil {
		p("min_replicas = %d", *spec.Min)
	}
	p("max_replicas = %d", spec.Max)
	p("outage_hold = %q", "0s")
	for i := range spec.Metrics {
		m := &spec.Metrics[i]
		p("[[autoscalers.%s.metrics]]", a.Name)
		p("type = %q", m.Type)
		switch m.Type {
		case "Resource", "ContainerResource":
			p("resource = %q", m.Name)
			if m.Task != "" {
				p("task = %q", m.Task)
			}
		default:
			p("name = %q", m.Name)
		}
		if m.Type == "Object" {
			p("object = %q", "thing/"+m.Object)
		}
		switch m.Goal {
		case "utilization":
			p("average_utilization = %d", m.Percent)
		case "average":
			p("average_value = %q", m.Amount)
		case "value":
			p("value = %q", m.Amount)
		}
		if m.Sampled() {
			continue
		}
		p("source = \"s%d\"", fleet)
		if m.Shared {
			p("query = 'w{m=\"%d\"}'", i)
			p("select = { a = %q }", target)
		} else {
			p("query = 'w{a=%q,m=\"%d\"}'", target, i)
		}
		if m.Type != "Object" && m.Type != "External" {
			p("instance_label = %q", "id")
		}
		if m.Query {
			p("window = %q", m.Window)
		}
	}
	if spec.Behavior == nil {
		return
	}
	p("[autoscalers.%s.behavior]", a.Name)
	for _, direction := range []struct {
		name  string
		rules *sim.Rules
	}{{"scale_up", spec.Behavior.Up}, {"scale_down", spec.Behavior.Down}} {
		r := direction.rules
		if r == nil {
			continue
		}
		p("[autoscalers.%s.behavior.%s]", a.Name, direction.name)
		if r.Window != nil {
			p("stabilization_window = \"%ds\"", *r.Window)
		}
		if r.Select != "" {
			p("select_policy = %q", r.Select)
		}
		if r.Tolerance != "" {
			p("tolerance = %q", r.Tolerance)
		}
		if r.Policies != nil {
			var parts []string
			for _, one := range r.Policies {
				parts = append(parts, fmt.Sprintf("{ type = %q, value = %d, period = \"%ds\" }", one.Type, one.Value, one.Period))
			}
			p("policies = [%s]", strings.Join(parts, ", "))
		}
	}
}

func labelsOf(a *sim.Autoscaler, spec *sim.Spec, fleet int) map[string]string {
	labels := map[string]string{}
	set := func(key string, value any) { labels[targets.LabelPrefix+key] = fmt.Sprint(value) }
	set("enable", true)
	if a.Fleet.ByConfig {
		for name, milli := range a.Fleet.Whole {
			set("requests."+name, fmt.Sprintf("%dm", milli))
		}
	}
	if a.Period > 0 {
		set("sync_period", a.Period)
	}
	if spec.Min != nil {
		set("min", *spec.Min)
	}
	set("max", spec.Max)
	set("outage_hold", "0s")
	for i := range spec.Metrics {
		m, at := &spec.Metrics[i], fmt.Sprintf("metrics.%d.", i)
		set(at+"type", m.Type)
		switch m.Type {
		case "Resource", "ContainerResource":
			set(at+"resource", m.Name)
			if m.Task != "" {
				set(at+"task", m.Task)
			}
		default:
			set(at+"name", m.Name)
		}
		if m.Type == "Object" {
			set(at+"object", "thing/"+m.Object)
		}
		switch m.Goal {
		case "utilization":
			set(at+"average_utilization", m.Percent)
		case "average":
			set(at+"average_value", m.Amount)
		case "value":
			set(at+"value", m.Amount)
		}
		if m.Sampled() {
			continue
		}
		set(at+"source", fmt.Sprintf("s%d", fleet))
		if m.Shared {
			set(at+"query", fmt.Sprintf("w{m=\"%d\"}", i))
			set(at+"select.a", a.Name)
		} else {
			set(at+"query", fmt.Sprintf("w{a=%q,m=\"%d\"}", a.Name, i))
		}
		if m.Type != "Object" && m.Type != "External" {
			set(at+"instance_label", "id")
		}
		if m.Query {
			set(at+"window", m.Window)
		}
	}
	if spec.Behavior == nil {
		return labels
	}
	for name, r := range map[string]*sim.Rules{"scale_up": spec.Behavior.Up, "scale_down": spec.Behavior.Down} {
		if r == nil {
			continue
		}
		at := "behavior." + name + "."
		if r.Window != nil {
			set(at+"stabilization_window", fmt.Sprintf("%ds", *r.Window))
		}
		if r.Select != "" {
			set(at+"select_policy", r.Select)
		}
		if r.Tolerance != "" {
			set(at+"tolerance", r.Tolerance)
		}
		for i, one := range r.Policies {
			set(fmt.Sprintf("%spolicies.%d.type", at, i), one.Type)
			set(fmt.Sprintf("%spolicies.%d.value", at, i), one.Value)
			set(fmt.Sprintf("%spolicies.%d.period", at, i), fmt.Sprintf("%ds", one.Period))
		}
	}
	return labels
}
