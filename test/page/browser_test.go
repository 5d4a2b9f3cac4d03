// Package page tests hpad's web page in a real browser.
package page

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/hpad/hpad/test/internal/installed"
	"github.com/hpad/hpad/test/internal/parallel"
	"github.com/hpad/hpad/test/internal/program"
	"github.com/hpad/hpad/test/wait"
)

const patience = time.Minute

// browser is shared by all tests. Each test uses its own tab.
var browser struct {
	once sync.Once
	ctx  context.Context
	end  func()
	err  error
}

func TestMain(m *testing.M) {
	code := parallel.Run(m, 7)
	if browser.end != nil {
		browser.end()
	}
	program.Clean()
	os.Exit(code)
}

func startBrowser() {
	path, err := exec.LookPath("chromium")
	if err != nil {
		browser.err = err
		return
	}
	profile, err := os.MkdirTemp("", "hpad-chromium-")
	if err != nil {
		browser.err = err
		return
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.UserDataDir(profile), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-background-networking", true), chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-sync", true), chromedp.Flag("disable-dev-shm-usage", true),
		chromedp.Env("TMPDIR="+profile)) // Chromium does not remove its temporary files
	quiet := chromedp.WithErrorf(func(string, ...any) {}) // the library does not support all events
	allocated, release := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, quit := chromedp.NewContext(allocated, quiet)
	browser.ctx, browser.err = ctx, chromedp.Run(ctx)
	browser.end = func() {
		quit()
		release()
		_ = os.RemoveAll(profile)
	}
}

// tab is a browser tab. Console messages, policy violations and exceptions fail the test, unless
// they contain a text in expected.
type tab struct {
	t   *testing.T
	ctx context.Context

	mu       sync.Mutex
	expected []string
	messages []string
}

func newTab(t *testing.T) *tab {
	t.Helper()
	browser.once.Do(startBrowser)
	if browser.err != nil {
		installed.Absent(t, "no browser: "+browser.err.Error()+": run test/install/chromium.sh")
	}
	ctx, end := chromedp.NewContext(browser.ctx)
	ctx, cancel := context.WithTimeout(ctx, 10*patience)
	b := &tab{t: t, ctx: ctx}
	chromedp.ListenTarget(ctx, func(event any) {
		switch e := event.(type) {
		case *log.EventEntryAdded:
			b.record(string(e.Entry.Source) + ": " + e.Entry.Text + " " + e.Entry.URL)
		case *runtime.EventExceptionThrown:
			b.record("exception: " + e.ExceptionDetails.Error())
		case *runtime.EventConsoleAPICalled:
			var texts []string
			for _, one := range e.Args {
				texts = append(texts, string(one.Value))
			}
			b.record("console: " + strings.Join(texts, " "))
		}
	})
	t.Cleanup(func() {
		cancel()
		end()
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, text := range b.messages {
			t.Errorf("browser message: %s", text)
		}
	})
	b.do(log.Enable(), emulation.SetFocusEmulationEnabled(true)) // otherwise, background tabs are hidden
	return b
}

func (b *tab) record(text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, one := range b.expected {
		if strings.Contains(text, one) {
			return
		}
	}
	b.messages = append(b.messages, text)
}

// expect permits messages that contain text.
func (b *tab) expect(text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.expected = append(b.expected, text)
}

func (b *tab) do(actions ...chromedp.Action) {
	b.t.Helper()
	if err := chromedp.Run(b.ctx, actions...); err != nil {
		b.t.Fatal(err)
	}
}

// look sets the window width and the color scheme.
func (b *tab) look(width int64, scheme string) {
	b.t.Helper()
	b.do(emulation.SetDeviceMetricsOverride(width, 900, 1, false),
		emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"}}))
}

func (b *tab) open(url string) {
	b.t.Helper()
	b.do(chromedp.Navigate(url))
}

// js evaluates an expression and returns its value. If the value is a promise, js waits for it.
func (b *tab) js(expression string) any {
	b.t.Helper()
	var result any
	b.do(chromedp.Evaluate(expression, &result, func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }))
	return result
}

// await waits until an expression is true.
func (b *tab) await(what, expression string) {
	b.t.Helper()
	wait.For(b.t, patience, what, func() (string, bool) {
		var ok bool
		if err := chromedp.Run(b.ctx, chromedp.Evaluate("Boolean("+expression+")", &ok)); err != nil {
			return err.Error(), false
		}
		if ok {
			return "", true
		}
		var text string
		_ = chromedp.Run(b.ctx, chromedp.Evaluate("document.body.innerText.slice(0, 1500)", &text))
		return "text of the page:\n" + text, false
	})
}

// text returns the visible text of an element.
func (b *tab) text(selector string) string {
	b.t.Helper()
	text, _ := b.js(fmt.Sprintf("document.querySelector(%q)?.innerText ?? ''", selector)).(string)
	return text
}

// fill types text into a field.
func (b *tab) fill(selector, text string) {
	b.t.Helper()
	b.js(fmt.Sprintf("(() => { const e = document.querySelector(%q); e.focus(); e.value = ''; e.dispatchEvent(new Event('input', {bubbles: true})); })()", selector))
	if text != "" {
		b.do(chromedp.SendKeys(selector, text, chromedp.ByQuery))
	}
}

// click clicks the button whose label is text.
func (b *tab) click(text string) {
	b.t.Helper()
	b.do(chromedp.Click(fmt.Sprintf(`//button[normalize-space(.)=%q and not(@hidden)]`, text), chromedp.BySearch))
}

// axe is the source of the accessibility checker.
var axe = sync.OnceValues(func() (string, error) {
	path := installed.Cache() + "/axe-core-v4.14.1/axe.min.js"
	text, err := os.ReadFile(path)
	return string(text), err
})

// accessible checks the page against WCAG 2.2 A and AA and axe's best practices, and that it is
// not wider than the window.
func (b *tab) accessible(what string) {
	b.t.Helper()
	source, err := axe()
	if err != nil {
		installed.Absent(b.t, err.Error()+": run test/install/chromium.sh")
	}
	b.do(chromedp.Evaluate(source, nil))
	text, _ := b.js(`axe.run(document, {resultTypes: ["violations"]}).then((r) => JSON.stringify(r.violations.map((v) =>
		({id: v.id, help: v.help, nodes: v.nodes.slice(0, 3).map((n) => n.html.slice(0, 300) + " " + n.failureSummary)}))))`).(string)
	var violations []struct {
		ID, Help string
		Nodes    []string
	}
	if err := json.Unmarshal([]byte(text), &violations); err != nil {
		b.t.Fatal(err)
	}
	for _, one := range violations {
		b.t.Errorf("%s: %s: %s\n%s", what, one.ID, one.Help, strings.Join(one.Nodes, "\n"))
	}
	if wide := b.js("document.documentElement.scrollWidth > innerWidth + 1"); wide == true {
		b.t.Errorf("%s: the page is wider than the window: %v", what, b.js(
			"[...document.querySelectorAll('body *')].filter((e) => e.getBoundingClientRect().right > innerWidth + 1 && !e.closest('.card, pre')).slice(0, 5).map((e) => e.outerHTML.slice(0, 120)).join('\\n')"))
	}
}
