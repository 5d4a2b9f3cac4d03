package page

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/simulate"
)

// whatIfDaemon applies settings of max_replicas.
type whatIfDaemon struct{ *fakeDaemon }

func (d *whatIfDaemon) Policies(name string, variants []config.Variant) ([]simulate.Policy, error) {
	policies, err := d.fakeDaemon.Policies(name, nil)
	if err != nil {
		return nil, err
	}
	policies[0].Settings = policy.Settings{Tolerance: 0.1, DownscaleStabilization: 5 * time.Minute}
	for _, v := range variants {
		varied := policies[0]
		varied.Label = v.Label()
		if _, err := fmt.Sscanf(v.Label(), "max_replicas=%d", &varied.Spec.MaxReplicas); err != nil {
			return nil, config.Errors{{Key: "autoscalers." + name + "." + v.Label(), Detail: "must be a whole number"}}
		}
		policies = append(policies, varied)
	}
	return policies, nil
}

// newWhatIfPage serves a page with an autoscaler "shop" that has a recording of a day.
func newWhatIfPage(t *testing.T) string {
	t.Helper()
	now := time.Now()
	d := &whatIfDaemon{newDaemon(now, "node-1", api.Instance{ID: "i-1", Name: "instance-1"})}
	d.add("shop", 1, now)
	d.Passes = simulate.Recording{Name: "shop", Origin: simulate.FromGraphs, Metrics: []string{"load"}, Step: time.Minute}
	for i := range 1440 {
		milli := int64(60_000 - 40_000*math.Cos(float64(i)/200))
		count := int32(milli/10_000) + 1
		d.Passes.Ticks = append(d.Passes.Ticks, simulate.Tick{
			Time: now.Add(time.Duration(i-1440) * time.Minute), Replicas: count, Desired: count, Observed: count, Ready: count, Readings: []simulate.Reading{{Milli: milli}},
		})
	}
	return serveDaemon(t, d)
}

// TestWhatIf simulates other settings in a browser.
func TestWhatIf(t *testing.T) {
	t.Parallel()
	server := newWhatIfPage(t)
	b := newTab(t)
	b.look(1400, "light")
	b.open(server + "/autoscalers/shop")
	b.await("the form", "document.querySelector('#whatif input[name=max_replicas]')")
	b.accessible("the form")
	b.fill("#whatif input[name=max_replicas]", "4")
	b.await("a mark of the changed field", "document.querySelector('#whatif input[name=max_replicas].changed')")
	b.click("Simulate")
	b.await("the table and the graph", "document.querySelectorAll('#whatif tbody tr').length === 2 && document.querySelector('#whatif-drawing canvas')")
	if text := b.text("#whatif table"); !strings.Contains(text, "active configuration") || !strings.Contains(text, "max_replicas=4") {
		t.Errorf("table = %s", text)
	}
	if location := b.js("location.search"); location != "" {
		t.Errorf("the form loaded a new page: %v", location)
	}
	for _, scheme := range []string{"light", "dark"} {
		for _, width := range []int64{390, 1400} {
			b.look(width, scheme)
			b.accessible(fmt.Sprintf("the result, %d wide, %s", width, scheme))
		}
	}
	b.fill("#whatif input[name=max_replicas]", "many")
	b.click("Simulate")
	b.await("the error", "document.querySelector('#whatif .problem')?.innerText.includes('autoscalers.shop.max_replicas=many: must be a whole number')")
	b.await("no graph", "!document.querySelector('#whatif-drawing')")
	b.do(chromedp.Click("[data-reset]", chromedp.ByQuery))
	if value := b.js("document.querySelector('#whatif input[name=max_replicas]').value"); value != "20" {
		t.Errorf("max_replicas after a reset = %v, want 20", value)
	}
}

// TestWhatIfWithoutScripts simulates other settings without scripts.
func TestWhatIfWithoutScripts(t *testing.T) {
	t.Parallel()
	server := newWhatIfPage(t)
	b := newTab(t)
	b.do(emulation.SetScriptExecutionDisabled(true))
	b.open(server + "/autoscalers/shop")
	b.do(chromedp.SetValue("#whatif input[name=max_replicas]", "5", chromedp.ByQuery), chromedp.Submit("#whatif form", chromedp.ByQuery))
	b.do(chromedp.WaitVisible("#whatif table", chromedp.ByQuery))
	var text string
	b.do(chromedp.Text("#whatif", &text, chromedp.ByQuery))
	if !strings.Contains(text, "max_replicas=5") || !strings.Contains(text, "from the recorded passes") && !strings.Contains(text, "with data from the recorded passes") {
		t.Errorf("text = %s", text)
	}
}
