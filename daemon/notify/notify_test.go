package notify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/hpad/hpad/daemon/redact/redacttest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake responds to posts in memory. It repeats its last response.
type fake struct {
	mu        sync.Mutex
	bodies    []string
	at        []time.Time
	responses []func(*http.Request) (*http.Response, error)
}

func (f *fake) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	f.bodies, f.at = append(f.bodies, string(body)), append(f.at, time.Now())
	response := respond(http.StatusNoContent)
	if len(f.responses) > 0 {
		response = f.responses[0]
		if len(f.responses) > 1 {
			f.responses = f.responses[1:]
		}
	}
	f.mu.Unlock()
	return response(r)
}

func respond(status int, header ...string) func(*http.Request) (*http.Response, error) {
	return func(*http.Request) (*http.Response, error) {
		h := http.Header{}
		for i := 0; i+1 < len(header); i += 2 {
			h.Set(header[i], header[i+1])
		}
		return &http.Response{StatusCode: status, Status: fmt.Sprint(status), Header: h, Body: io.NopCloser(strings.NewReader("said"))}, nil
	}
}

func hang(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, context.Cause(r.Context())
}

func refuseConnection(*http.Request) (*http.Response, error) {
	return nil, errors.New("connection refused")
}

func startNotifier(t *testing.T, f *fake, c Config) (*Notifier, *observer.ObservedLogs) {
	t.Helper()
	if c.URL == "" && c.URLFile == "" {
		c.URL = "http://receiver.test/"
	}
	c.SetDefaults()
	if invalid := c.Validate(); len(invalid) > 0 {
		t.Fatal(invalid)
	}
	core, logs := observer.New(zap.InfoLevel)
	n, err := newNotifier("chat", c, zap.New(core))
	if err != nil {
		t.Fatal(err)
	}
	n.http = &http.Client{Transport: f}
	n.Start()
	return n, logs
}

func closeNotifier(n *Notifier) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	n.Close(ctx)
}

func TestNoFieldShowsItsSecret(t *testing.T) {
	for _, secret := range redacttest.Texts {
		for _, template := range []string{"", `{"message": {{json .Message}}, "all": {{json (printf "%+v %s" . .Subject)}}}`} {
			synctest.Test(t, func(t *testing.T) {
				f := &fake{}
				n, _ := startNotifier(t, f, Config{Template: template})
				var event Event
				redacttest.Plant(t, &event, secret)
				event.Kind = Failed
				n.Notify(&event)
				closeNotifier(n)
				if body := strings.Join(f.bodies, "\n"); strings.Contains(body, redacttest.Secret) || !strings.Contains(body, "redacted") {
					t.Errorf("body for %q = %s", secret, body)
				}
			})
		}
	}
}

// TestCloudEvent checks the body of an event, and that a retry posts the same body.
func TestCloudEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{responses: []func(*http.Request) (*http.Response, error){refuseConnection, respond(200)}}
		n, logs := startNotifier(t, f, Config{})
		n.Notify(&Event{
			Kind: Refused, Time: time.Date(2026, 11, 21, 12, 0, 15, 0, time.UTC), Autoscaler: "web", Fleet: "prod", Target: "prod/web",
			From: 8, To: 2, Reason: "BreakerOpen", Message: `held: "no"`,
		})
		time.Sleep(time.Minute)
		closeNotifier(n)
		if len(f.bodies) != 2 || f.bodies[0] != f.bodies[1] {
			t.Fatalf("posted %q, want two equal posts", f.bodies)
		}
		var got map[string]any
		if err := json.Unmarshal([]byte(f.bodies[0]), &got); err != nil {
			t.Fatal(err)
		}
		for key, want := range map[string]any{
			"specversion": "1.0", "type": "io.hpad.refused", "source": "/hpad", "subject": "autoscaler/web", "time": "2026-11-21T12:00:15Z", "datacontenttype": "application/json",
		} {
			if got[key] != want {
				t.Errorf("%s = %v, want %v", key, got[key], want)
			}
		}
		data, _ := got["data"].(map[string]any)
		if got["id"] == "" || data["from"] != 8.0 || data["to"] != 2.0 || data["reason"] != "BreakerOpen" || data["message"] != `held: "no"` || data["target"] != "prod/web" {
			t.Errorf("event = %v", got)
		}
		if counts := n.counts(); counts != (Counts{Sent: 1}) {
			t.Errorf("counts = %+v", counts)
		}
		if logs.FilterMessage("notification delivery failed").Len() != 1 || logs.FilterMessage("notification delivery recovered").Len() != 1 {
			t.Errorf("log = %v", logs.All())
		}
	})
}

// TestRetries checks which posts are retried, and when retries end.
func TestRetries(t *testing.T) {
	for _, c := range []struct {
		name      string
		responses []func(*http.Request) (*http.Response, error)
		posts     [2]int // minimum and maximum
		counts    Counts
		// first is the minimum delay of the second post.
		first time.Duration
	}{
		{"rejected", []func(*http.Request) (*http.Response, error){respond(400)}, [2]int{1, 1}, Counts{Failed: 1}, 0},
		{"down", []func(*http.Request) (*http.Response, error){respond(503)}, [2]int{12, 30}, Counts{Failed: 1}, 500 * time.Millisecond},
		{"hangs", []func(*http.Request) (*http.Response, error){hang, respond(200)}, [2]int{2, 2}, Counts{Sent: 1}, 10 * time.Second},
		{"requests a delay", []func(*http.Request) (*http.Response, error){respond(429, "Retry-After", "30"), respond(200)}, [2]int{2, 2}, Counts{Sent: 1}, 30 * time.Second},
		{"requests a long delay", []func(*http.Request) (*http.Response, error){respond(429, "Retry-After", "86400"), respond(200)}, [2]int{2, 2}, Counts{Sent: 1}, time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fake{responses: c.responses}
				n, _ := startNotifier(t, f, Config{})
				n.Notify(&Event{Kind: Changed})
				time.Sleep(15 * time.Minute)
				synctest.Wait()
				if got := n.counts(); got != c.counts || len(f.bodies) < c.posts[0] || len(f.bodies) > c.posts[1] {
					t.Errorf("%d posts, %+v, want %v and %+v", len(f.bodies), got, c.posts, c.counts)
				}
				if len(f.at) > 1 && f.at[1].Sub(f.at[0]) < c.first {
					t.Errorf("second post after %v, want at least %v", f.at[1].Sub(f.at[0]), c.first)
				}
				if len(f.at) > 1 && f.at[len(f.at)-1].Sub(f.at[0]) > 10*time.Minute {
					t.Errorf("duration of the posts = %v", f.at[len(f.at)-1].Sub(f.at[0]))
				}
				closeNotifier(n)
			})
		})
	}
}

// TestQueue checks that a hanging receiver does not delay senders, that events beyond the limit are
// lost and counted, and that the remaining events arrive in order.
func TestQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{responses: []func(*http.Request) (*http.Response, error){hang, respond(200)}}
		n, logs := startNotifier(t, f, Config{Queue: 3, Template: `{{.From}}`, ContentType: "text/plain"})
		begun := time.Now()
		for i := range 10 {
			n.Notify(&Event{Kind: Changed, From: int32(i)})
			synctest.Wait()
		}
		if time.Since(begun) > 0 {
			t.Errorf("duration of Notify = %v", time.Since(begun))
		}
		if got := n.counts(); got != (Counts{Dropped: 6, Waiting: 3}) {
			t.Errorf("counts = %+v", got)
		}
		time.Sleep(time.Minute)
		n.Notify(&Event{Kind: Changed, From: 10})
		time.Sleep(time.Minute)
		synctest.Wait()
		if want := []string{"0", "0", "1", "2", "3", "10"}; !slices.Equal(f.bodies, want) {
			t.Errorf("posted %q, want %q", f.bodies, want)
		}
		if logs.FilterMessageSnippet("notifications lost").Len() != 1 {
			t.Errorf("log = %v", logs.All())
		}
		closeNotifier(n)
	})
}

func TestFilters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		n, _ := startNotifier(t, f, Config{Events: []string{"refused", "failed"}, Reasons: []string{"BreakerOpen"}, Template: "{{.Kind}} {{.Reason}}", ContentType: "text/plain"})
		for _, kind := range kinds {
			for _, reason := range []string{"BreakerOpen", "Paused", ""} {
				n.Notify(&Event{Kind: kind, Reason: reason})
			}
		}
		closeNotifier(n)
		if want := []string{"refused BreakerOpen", "refused ", "failed BreakerOpen", "failed "}; !slices.Equal(f.bodies, want) {
			t.Errorf("posted %q, want %q", f.bodies, want)
		}
	})
}

func TestInvalidConfig(t *testing.T) {
	const url = "http://receiver.test/"
	for name, c := range map[string]struct {
		config Config
		field  string
		want   string
	}{
		"no URL":         {Config{}, "url", "either url or url_file"},
		"two URLs":       {Config{URL: url, URLFile: "f"}, "url", "cannot be combined with url_file"},
		"no HTTP URL":    {Config{URL: "ftp://a"}, "url", "must be the URL of a receiver"},
		"event":          {Config{URL: url, Events: []string{"change"}}, "events[0]", `must be "changed"`},
		"reason":         {Config{URL: url, Reasons: []string{"Paused", "paused"}}, "reasons[1]", "docs/reasons.md"},
		"never sent":     {Config{URL: url, Reasons: []string{"Quarantined"}}, "reasons[0]", `"Panicked"`},
		"syntax":         {Config{URL: url, Template: "{{"}, "template", "unclosed action"},
		"field":          {Config{URL: url, Template: "{{.Nam}}"}, "template", "can't evaluate field Nam"},
		"not quoted":     {Config{URL: url, Template: `{"text": "{{.Message}}"}`}, "template", "does not produce valid JSON"},
		"too much":       {Config{URL: url, Template: `{{define "x"}}{{template "x"}}{{end}}aaaaaaaa{{template "x"}}`, ContentType: "text/plain"}, "template", "exceeded maximum template depth"},
		"empty timeouts": {Config{URL: url, Timeout: -1}, "timeout", "more than 0"},
	} {
		t.Run(name, func(t *testing.T) {
			c.config.SetDefaults()
			invalid := c.config.Validate()
			if len(invalid) != 1 || invalid[0].Field != c.field || !strings.Contains(invalid[0].Detail, c.want) {
				t.Errorf("invalid %+v, want %s: %s", invalid, c.field, c.want)
			}
		})
	}
}

// TestAddressIsSecret checks that a URL file is read for each post, and that no error contains the
// URL.
func TestAddressIsSecret(t *testing.T) {
	file := filepath.Join(t.TempDir(), "url")
	if err := os.WriteFile(file, []byte("http://127.0.0.1:1/hunter2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := Config{URLFile: file}
	c.SetDefaults()
	n, err := newNotifier("chat", c, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := n.post(t.Context(), nil); err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("error = %v", err)
	}
	var paths []string
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { paths = append(paths, r.URL.Path) }))
	defer server.Close()
	for _, path := range []string{"/one", "/two"} {
		if err := os.WriteFile(file, []byte(server.URL+path), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := n.post(t.Context(), nil); err != nil {
			t.Error(err)
		}
	}
	if want := []string{"/one", "/two"}; !slices.Equal(paths, want) {
		t.Errorf("posted to %q, want %q", paths, want)
	}
	if err := os.WriteFile(file, []byte("::hunter2"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := n.post(t.Context(), nil); err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("error = %v", err)
	}
	n.http.CloseIdleConnections()
}

// TestReceivers checks that a reload keeps unchanged receivers with their events and closes the
// other receivers, which get five seconds to post their events.
func TestReceivers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r Receivers
		config := func(url string) Config {
			c := Config{URL: url}
			c.SetDefaults()
			return c
		}
		core, logs := observer.New(zap.ErrorLevel)
		make := func(configs map[string]Config) Set {
			t.Helper()
			set, err := r.Make(configs, zap.New(core))
			if err != nil {
				t.Fatal(err)
			}
			return set
		}
		if r.Any() {
			t.Error("Any = true before the first configuration")
		}
		r.Notify(&Event{Kind: Changed})
		stays, goes := &fake{}, &fake{responses: []func(*http.Request) (*http.Response, error){hang}}
		first := make(map[string]Config{"stays": config("http://a.test"), "goes": config("http://b.test")})
		first["stays"].http, first["goes"].http = &http.Client{Transport: stays}, &http.Client{Transport: goes}
		r.Swap(first)
		r.Notify(&Event{Kind: Changed})
		r.Notify(&Event{Kind: Changed})
		synctest.Wait()
		second := make(map[string]Config{"stays": config("http://a.test"), "goes": config("http://c.test")})
		if second["stays"] != first["stays"] || second["goes"] == first["goes"] {
			t.Error("the wrong receivers were reused")
		}
		second["goes"].http = &http.Client{Transport: stays}
		r.Swap(second)
		r.Notify(&Event{Kind: Changed})
		time.Sleep(time.Minute)
		synctest.Wait()
		if counts := r.Counts(); len(stays.bodies) != 4 || len(goes.bodies) != 1 || counts["goes"] != (Counts{Sent: 1, Dropped: 2}) {
			t.Errorf("posts = %d and %d, counts = %v, want two dropped events of the closed receiver", len(stays.bodies), len(goes.bodies), counts)
		}
		if lost := logs.FilterMessage("notifications lost at stop").All(); len(lost) != 1 || lost[0].ContextMap()["count"] != int64(2) {
			t.Errorf("log = %v", logs.All())
		}
		r.Close()
		if r.Any() {
			t.Error("Any = true after Close")
		}
	})
}
