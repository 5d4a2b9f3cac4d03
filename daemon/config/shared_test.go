package config

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hpad/hpad/policy"
)

// TestShared holds autoscalers that differ in one key each, and the same ones again,
// read together, against each read alone: none has what another one says, and those
// that say the same hold one copy.
func TestShared(t *testing.T) {
	const metric = "\n[[autoscalers.NAME.metrics]]\ntype = \"External\"\nname = \"n\"\nsource = \"s\"\nquery = \"q\"\n"
	bodies := []string{
		"", "\nmin_replicas = 2", "\nmin_replicas = 3", "\nbehavior = {}",
		metric + `value = 1`, metric + `value = 2`, metric + `average_value = 1`,
		strings.Replace(metric, `"q"`, `"r"`, 1) + `value = 1`, strings.Replace(metric, `"n"`, `"m"`, 1) + `value = 1`,
		metric + "value = 1\nvalid = [0, 1]", metric + "value = 1\nvalid = [0, 2]", metric + "value = 1\nmin_series = 1", metric + "value = 1\nempty = \"zero\"",
		metric + "value = 1\non_missing = { after = \"1m\", use = \"max\" }", metric + "value = 1\non_missing = { after = \"2m\", use = \"max\" }",
		metric + `value = 1` + metric + `value = 2`, metric + `value = 2` + metric + `value = 1`,
		metric + "value = 1\nselect = {}", metric + "value = 1\nselect = { a = \"b\" }", metric + "value = 1\nselect = { a = \"c\" }",
		metric + "value = 1\nselect = { a = \"b\", c = \"d\" }",
	}
	for _, utilization := range []string{"average_utilization = 1", "average_utilization = 2", "average_value = 1"} {
		const asked = "\nsource = \"s\"\nquery = \"q\"\ninstance_label = \"l\"\nwindow = \"1m\""
		for _, of := range []string{
			"", asked, asked + "\nmatch = \"name\"",
			strings.Replace(asked, "1m", "2m", 1), strings.Replace(asked, `"l"`, `"k"`, 1),
		} {
			bodies = append(bodies, "\n[[autoscalers.NAME.metrics]]\ntype = \"Resource\"\nresource = \"cpu\"\n"+utilization+of)
		}
	}
	for _, rules := range []string{
		"", "stabilization_window = \"1m\"", "stabilization_window = \"2m\"", "select_policy = \"Min\"", "tolerance = 0.1", "tolerance = 0",
		"policies = [{ type = \"Percent\", value = 1, period = \"1m\" }]", "policies = [{ type = \"Pods\", value = 1, period = \"1m\" }]",
		"policies = [{ type = \"Percent\", value = 2, period = \"1m\" }]", "policies = [{ type = \"Percent\", value = 1, period = \"2m\" }]",
	} {
		bodies = append(bodies, "\n[autoscalers.NAME.behavior.scale_up]\n"+rules, "\n[autoscalers.NAME.behavior.scale_down]\n"+rules)
	}
	file := func(names ...int) string {
		var text strings.Builder
		text.WriteString("[fleets.f]\nkind = \"nomad\"\naddress = \"http://127.0.0.1:1\"\n[sources.s]\nkind = \"prometheus\"\nurl = \"http://127.0.0.1:1\"\n")
		for _, i := range names {
			name := fmt.Sprintf("a%d", i)
			fmt.Fprintf(&text, "[autoscalers.%s]\ntarget = { fleet = \"f\", job = \"%s\", group = \"g\" }\nmax_replicas = 5%s\n", name, name, strings.ReplaceAll(bodies[i%len(bodies)], "NAME", name))
		}
		return text.String()
	}
	read := func(names ...int) map[string]*Autoscaler {
		c, err := Parse("hpad.toml", []byte(file(names...)))
		if err != nil {
			t.Fatal(err)
		}
		return c.Autoscalers
	}
	var all []int
	for i := range 2 * len(bodies) {
		all = append(all, i)
	}
	together := read(all...)
	for i, body := range bodies {
		name, again := fmt.Sprintf("a%d", i), fmt.Sprintf("a%d", i+len(bodies))
		a, b := together[name], together[again]
		if diff := cmp.Diff(read(i)[name], a, cmp.AllowUnexported(Autoscaler{})); diff != "" {
			t.Errorf("%s\ntogether with others (-alone +together):\n%s", body, diff)
		}
		if a.Spec.MinReplicas != b.Spec.MinReplicas || a.Spec.Behavior != b.Spec.Behavior || &a.Spec.Metrics[0] != &b.Spec.Metrics[0] ||
			a.Inputs[0].Select == nil && &a.Inputs[0] != &b.Inputs[0] {
			t.Errorf("%s\nis held twice:\n%+v\n%+v", body, a, b)
		}
	}
	if reflect.DeepEqual(together["a1"].Spec, together["a2"].Spec) {
		t.Error("different autoscalers are alike")
	}
}

// TestSharedKeys holds that what differs in one field has another key, or else an
// autoscaler would be read as another one says.
func TestSharedKeys(t *testing.T) {
	eachField(t, "Input", func(in Input) any { in.Select = nil; return inputKeyOf(in) }, "Select") // one that selects is not shared
	eachField(t, "MetricSpec", func(m policy.MetricSpec) any { return metricKeyOf(m) }, "Target")
	eachField(t, "MetricTarget", func(g policy.MetricTarget) any { return metricKeyOf(policy.MetricSpec{Target: g}) })
	eachField(t, "ScalingPolicy", func(p policy.ScalingPolicy) any { return p })
	eachField(t, "Amount", func(a policy.Amount) any { return a })
}

func eachField[T any](t *testing.T, name string, key func(T) any, besides ...string) {
	t.Helper()
	var none T
fields:
	for _, field := range reflect.VisibleFields(reflect.TypeFor[T]()) {
		for _, other := range besides {
			if field.Name == other {
				continue fields
			}
		}
		var one T
		value := reflect.ValueOf(&one).Elem().FieldByIndex(field.Index)
		switch value.Kind() {
		case reflect.Pointer:
			value.Set(reflect.New(value.Type().Elem()))
		case reflect.Bool:
			value.SetBool(true)
		case reflect.String:
			value.SetString("x")
		default:
			value.SetInt(1)
		}
		if key(one) == key(none) {
			t.Errorf("%s.%s is not in the key", name, field.Name)
		}
	}
}
