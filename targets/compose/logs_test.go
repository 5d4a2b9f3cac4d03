package compose

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
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

// TestPrevious checks the lines and the time limit of the output before the current start.
func TestPrevious(t *testing.T) {
	started := time.Date(2026, 11, 29, 1, 0, 2, 0, time.UTC)
	until := ""
	state := container.State{Status: container.StateRunning, Running: true, StartedAt: started.Format(time.RFC3339Nano), FinishedAt: "0001-01-01T00:00:00Z"}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Api-Version", "1.43")
		switch query := r.URL.Query(); {
		case strings.HasSuffix(r.URL.Path, "/logs"):
			if until = query.Get("until"); query.Get("tail") != "all" {
				t.Errorf("the request is %s", r.URL)
			}
			_, _ = io.WriteString(w, "one\ntwo\nthree")
		case strings.HasSuffix(r.URL.Path, "/json"):
			_ = json.NewEncoder(w).Encode(container.InspectResponse{
				ContainerJSONBase: &container.ContainerJSONBase{ID: "a", State: &state, HostConfig: &container.HostConfig{}},
				Config:            &container.Config{}, NetworkSettings: &container.NetworkSettings{},
			})
		}
	}))
	defer server.Close()
	f, err := New("shop", testConfig(t, "tcp://"+server.Listener.Addr().String()), targets.Env{Store: &targettest.Store{}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	previous := func(lines int) (string, error) {
		var text strings.Builder
		err := f.WriteLogs(t.Context(), targets.Ref{Fleet: "shop", Name: "shop/web"}, "a", targets.LogQuery{Lines: lines, Previous: true}, &text)
		return text.String(), err
	}
	if got, err := previous(2); err == nil {
		t.Errorf("the output of a container that has not restarted is %q", got)
	}
	state.FinishedAt = started.Add(-2 * time.Second).Format(time.RFC3339Nano)
	if got, err := previous(2); err != nil || got != "one\ntwo\nthree" && got != "two\nthree" || !strings.HasPrefix(until, strconv.FormatInt(started.Unix()-1, 10)) {
		t.Errorf("the output until %q is %q, %v", until, got, err)
	}
	state.Running, state.Status = false, container.StateExited
	if got, err := previous(3); err != nil || got != "one\ntwo\nthree" || until != "" {
		t.Errorf("the output of an ended container until %q is %q, %v", until, got, err)
	}
}

// TestLastLines checks the limits on the number and the size of lines.
func TestLastLines(t *testing.T) {
	l := &lastLines{most: 2}
	for _, part := range []string{"one\ntw", "o\nthree\n", "fo", "ur\n"} {
		_, _ = l.Write([]byte(part))
	}
	if got := string(bytes.Join(l.lines, nil)); got != "three\nfour\n" {
		t.Errorf("the last lines are %q", got)
	}
	for range 3 * maxPrevious >> 20 {
		_, _ = l.Write(bytes.Repeat([]byte("x"), 1<<20))
	}
	if l.size > maxPrevious+1<<20 {
		t.Errorf("%d bytes are stored", l.size)
	}
}
