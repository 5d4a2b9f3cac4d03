package page_test

import (
	"fmt"
	"html"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/api/apitest"
	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/simulate"
)

// simulated returns a daemon with an autoscaler that has a recording of 12 hours. Policies records the
// variants in calls.
type simulatedWorld struct {
	*world
	variants []config.Variant
}

func (w *simulatedWorld) Policies(name string, variants []config.Variant) ([]simulate.Policy, error) {
	w.variants = append(w.variants, variants...)
	policies, err := w.world.Policies(name, nil)
	for _, v := range variants {
		if strings.Contains(v.Label(), "many") {
			return nil, config.Errors{{Key: "autoscalers.web.max_replicas", Detail: "must be a whole number"}}
		}
		varied := policies[0]
		varied.Label, varied.Spec.MaxReplicas = v.Label(), 2
		policies = append(policies, varied)
	}
	return policies, err
}

func newSimulated() *simulatedWorld {
	view := named("web")
	recording := simulate.Recording{Name: "web", Origin: simulate.FromGraphs, Metrics: []string{"load"}, Step: time.Minute}
	for i := range 720 {
		recording.Ticks = append(recording.Ticks, simulate.Tick{
			Time: noon.Add(time.Duration(i) * time.Minute), Replicas: 3, Desired: 3, Observed: 3, Ready: 3, Readings: []simulate.Reading{{Milli: 29_000}},
		})
	}
	settings := policy.Settings{Tolerance: 0.1, DownscaleStabilization: 5 * time.Minute}
	return &simulatedWorld{world: &world{&apitest.Daemon{
		List: []api.Autoscaler{view}, Passes: recording,
		Simulated: []simulate.Policy{{Label: "active", Settings: settings, Spec: view.Spec, SyncPeriod: time.Minute}},
	}}}
}

// TestWhatIf checks that the form has the active values, that only changed values are simulated, and that
// the result or its error is part of the page, also for clients without write access and scripts.
func TestWhatIf(t *testing.T) {
	d := newSimulated()
	server := serveDaemon(t, d, api.ReadOnly)
	_, _, page := get(t, server.URL+"/autoscalers/web")
	for _, field := range [][2]string{
		{"metrics[0].average_value", "10"},
		{"min_replicas", "1"},
		{"max_replicas", "10"},
		{"behavior.scale_down.stabilization_window", "5m"},
		{"behavior.scale_up.stabilization_window", "0s"},
		{"behavior.scale_down.policies[0].type", "Percent"},
		{"behavior.scale_down.policies[0].period", "15s"},
	} {
		if want := fmt.Sprintf(`<input name="%s" value="%s"`, field[0], field[1]); !strings.Contains(page, want) {
			t.Errorf("the form lacks %s", want)
		}
	}
	if strings.Contains(page, "whatif-drawing") || len(d.variants) > 0 {
		t.Error("the page has the result of a simulation that nobody requested")
	}
	query := url.Values{
		"whatif": {"1"}, "model:load": {"total"}, "since": {"168h"}, "price": {"0.5"}, "min_replicas": {"1"}, "max_replicas": {"2"}, "behavior.scale_down.policies[0].type": {"Percent"},
		"behavior.scale_down.policies[0].value": {"50"}, "behavior.scale_down.policies[0].period": {"15s"},
	}
	_, _, page = get(t, server.URL+"/autoscalers/web?"+query.Encode())
	want := "max_replicas=2 behavior.scale_down.policies[0].type=Percent behavior.scale_down.policies[0].value=50 behavior.scale_down.policies[0].period=15s"
	if len(d.variants) != 1 || d.variants[0].Label() != want {
		t.Fatalf("variants = %+v, want %s", d.variants, want)
	}
	text := html.UnescapeString(page)
	for _, want := range []string{
		`<th scope="row">active configuration</th>`, `<th scope="row">max_replicas=2 behavior`, "<td data-label=\"cost\">", `data-label="shortage">100.0 %, longest `,
		`load is simulated as total`, `"replicas":[3,3,`, `value="2" data-active="10" class="changed"`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
	for name, test := range map[string]struct {
		query url.Values
		want  string
	}{
		"variant": {url.Values{"max_replicas": {"many"}}, "autoscalers.web.max_replicas: must be a whole number"},
		"price":   {url.Values{"price": {"free"}}, `price = "free": must be a number that is at least 0`},
		"model":   {url.Values{"model:load": {"linear"}}, `model of load: "linear" is not a model: use total, ratio, queue or fixed`},
		"escaped": {url.Values{"price": {hostile}}, "price = "},
	} {
		test.query.Set("whatif", "1")
		_, _, part := get(t, server.URL+"/autoscalers/web?part=whatif&"+test.query.Encode())
		if !strings.Contains(html.UnescapeString(part), `<p class="problem attention">`+test.want) || strings.Contains(part, hostile) || strings.Contains(part, "<html") {
			t.Errorf("%s: %s", name, part)
		}
	}
}
