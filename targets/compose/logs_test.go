package compose

import (
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"

	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/targettest"
	"github.com/hpad/hpad/test/wait"
)

// TestAwaitStart checks which ended containers followed output waits for.
func TestAwaitStart(t *testing.T) {
	state := func(status container.ContainerState) func(*fakeEngine, *fakeContainer) {
		return func(_ *fakeEngine, c *fakeContainer) { c.State.Status = status }
	}
	for name, test := range map[string]struct {
		end    func(i *fakeEngine, c *fakeContainer)
		change func(c *Config)
		grace  time.Duration
		waits  bool
	}{
		"restarted by the engine":  {end: state(container.StateRestarting), waits: true},
		"restarted by hpad":        {end: func(_ *fakeEngine, c *fakeContainer) { c.end(1) }, waits: true},
		"restarted by an operator": {end: func(_ *fakeEngine, c *fakeContainer) { c.end(0) }, grace: time.Minute, waits: true},
		"stopped":                  {end: func(_ *fakeEngine, c *fakeContainer) { c.end(0) }},
		"not restarted by hpad":    {end: func(_ *fakeEngine, c *fakeContainer) { c.end(1) }, change: func(c *Config) { c.RestartFailed = new(false) }},
		"dead":                     {end: state(container.StateDead), grace: time.Minute},
		"removed":                  {end: func(i *fakeEngine, c *fakeContainer) { i.drop(c) }, grace: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := newFakeEngine(t)
			i.up(service{project: "shop", name: "web"}, 1)
			c := testConfig(t, i.host())
			if test.change != nil {
				test.change(c)
			}
			f, err := New("shop", c, targets.Env{Store: &targettest.Store{}})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = f.Close() })
			web := i.of("shop", "web")[0]
			i.with(func() { test.end(i, web) })
			ended := make(chan bool, 1)
			go func() {
				again, err := f.awaitStart(t.Context(), key{"shop", "web"}, web.ID, test.grace)
				if err != nil {
					t.Error(err)
				}
				ended <- again
			}()
			if test.waits {
				inspections := func() (n int) {
					i.with(func() { n = i.calls["GET containers/json"] })
					return n
				}
				wait.Soon(t, "third inspection", func() bool { return inspections() >= 3 })
				i.with(web.start)
			}
			if again := <-ended; again != test.waits {
				t.Errorf("awaitStart() = %t, want %t", again, test.waits)
			}
		})
	}
}
