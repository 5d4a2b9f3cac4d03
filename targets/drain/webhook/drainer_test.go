package webhook_test

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/hpad/hpad/settings/httpclient"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/drain"
	"github.com/hpad/hpad/targets/drain/webhook"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// hook is a server that records its calls.
type hook struct {
	mu      sync.Mutex
	bodies  []string
	headers []http.Header
	status  int
	answer  string
	hang    chan struct{}
}

func (h *hook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	h.mu.Lock()
	h.bodies = append(h.bodies, r.Method+" "+r.URL.Path+" "+string(body))
	h.headers = append(h.headers, r.Header)
	status, answer, hang := h.status, h.answer, h.hang
	h.mu.Unlock()
	if hang != nil {
		<-hang
	}
	if status == http.StatusFound {
		w.Header().Set("Location", "/elsewhere")
	}
	w.WriteHeader(status)
	_, _ = w.Write([]byte(answer))
}

func (h *hook) say(status int, answer string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.status, h.answer = status, answer
}

func open(t *testing.T, c webhook.Config) *webhook.Drainer {
	t.Helper()
	c.SetDefaults()
	if mistakes := c.Validate(); mistakes != nil {
		t.Fatal(mistakes)
	}
	d, err := webhook.New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

func TestCalls(t *testing.T) {
	h := &hook{status: http.StatusOK}
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	d := open(t, webhook.Config{URL: server.URL + "/drain"})
	instance := drain.Instance{
		Target: targets.Ref{Fleet: "cloud", Name: "web"}, ID: "i-1", Name: "web-1", Node: "host", Addresses: []string{"10.0.0.1"},
		Labels: map[string]string{"team": "shop"}, Deadline: time.Date(2026, 1, 31, 15, 4, 5, 0, time.UTC),
	}
	for _, call := range []func(context.Context, drain.Instance) error{d.Begin, d.Undo, d.Finish} {
		if err := call(t.Context(), instance); err != nil {
			t.Fatal(err)
		}
	}
	if done, err := d.Drained(t.Context(), drain.Instance{ID: "i-2"}); err != nil || !done {
		t.Errorf("Drained() = %v, %v, want false, nil", done, err)
	}
	const rest = `,"target":"cloud/web","instance":{"id":"i-1","name":"web-1","node":"host","addresses":["10.0.0.1"],"labels":{"team":"shop"}},"deadline":"2026-01-31T15:04:05Z"}`
	want := []string{
		`POST /drain {"action":"begin"` + rest, `POST /drain {"action":"undo"` + rest, `POST /drain {"action":"finish"` + rest,
		`POST /drain {"action":"drained","target":"/","instance":{"id":"i-2","name":"i-2","node":"","addresses":[],"labels":{}},"deadline":"0001-01-01T00:00:00Z"}`,
	}
	if diff := cmp.Diff(want, h.bodies); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	if got := h.headers[0].Get("Content-Type"); got != "application/json" {
		t.Errorf("Content-Type = %q", got)
	}
	var request webhook.Request
	if err := json.Unmarshal([]byte(strings.TrimPrefix(h.bodies[0], "POST /drain ")), &request); err != nil || request.Action != "begin" || request.Instance.ID != "i-1" {
		t.Errorf("request = %+v, %v", request, err)
	}
}

func TestAnswers(t *testing.T) {
	h := &hook{}
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	d := open(t, webhook.Config{URL: server.URL})
	for _, c := range []struct {
		status int
		answer string
		done   bool
		err    string
	}{
		{http.StatusOK, "fine", true, ""},
		{http.StatusNoContent, "", true, ""},
		{http.StatusAccepted, "busy", false, ""},
		{http.StatusInternalServerError, "no such\n  host", false, "500 Internal Server Error: no such host"},
		{http.StatusServiceUnavailable, "", false, "it returned 503 Service Unavailable"},
		{http.StatusFound, "", false, "302 Found"},
		{http.StatusBadGateway, strings.Repeat("x", 100000), false, "502 Bad Gateway: xxx"},
	} {
		h.say(c.status, c.answer)
		done, err := d.Drained(t.Context(), drain.Instance{ID: "i-1"})
		if done != c.done || (err == nil) != (c.err == "") || err != nil && (!strings.Contains(err.Error(), c.err) || len(err.Error()) > 500) {
			t.Errorf("%d %.20q: %v, %v, want %v, %q", c.status, c.answer, done, err, c.done, c.err)
		}
	}
	h.say(http.StatusAccepted, "")
	if err := d.Begin(t.Context(), drain.Instance{ID: "i-1"}); err != nil {
		t.Errorf("Begin() with status 202 = %v, want nil", err)
	}
	if n := len(h.bodies); n != 8 {
		t.Errorf("calls = %d, want 8 without followed redirects", n)
	}
}

func TestTimeout(t *testing.T) {
	h := &hook{status: http.StatusOK, hang: make(chan struct{})}
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(h.hang) })
	d := open(t, webhook.Config{URL: server.URL, Timeout: 50 * time.Millisecond})
	if err := d.Begin(t.Context(), drain.Instance{ID: "i-1"}); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "no response within the drain timeout of 50ms") {
		t.Errorf("Begin() without a response = %v, want a timeout", err)
	}
}

// TestSecrets checks that credentials are read from files before each call, and that TLS
// certificates are verified.
func TestSecrets(t *testing.T) {
	h := &hook{status: http.StatusOK}
	server := httptest.NewTLSServer(h)
	t.Cleanup(server.Close)
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	authority := write("ca.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})))
	token, key := write("token", "first\n"), write("key", "k1\n")
	d := open(t, webhook.Config{
		URL: server.URL, HeaderFiles: map[string]string{"X-Key": key},
		Access: httpclient.Access{TokenFile: token, Headers: map[string]string{"X-Team": "shop"}, TLS: httpclient.TLS{CAFile: authority}},
	})
	instance := drain.Instance{ID: "i-1"}
	if err := d.Begin(t.Context(), instance); err != nil {
		t.Fatal(err)
	}
	write("token", "second\n")
	if err := d.Begin(t.Context(), instance); err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"Bearer first", "Bearer second"} {
		if got := h.headers[i]; got.Get("Authorization") != want || got.Get("X-Key") != "k1" || got.Get("X-Team") != "shop" {
			t.Errorf("headers = %v, want %q, the key and the team", got, want)
		}
	}
	if err := open(t, webhook.Config{URL: server.URL}).Begin(t.Context(), instance); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("Begin() with an unknown certificate authority = %v, want an error", err)
	}
	password := write("password", "p")
	d = open(t, webhook.Config{URL: server.URL, Access: httpclient.Access{
		BasicAuth: &httpclient.BasicAuth{Username: "u", PasswordFile: password}, TLS: httpclient.TLS{CAFile: authority},
	}})
	if err := d.Finish(t.Context(), instance); err != nil || h.headers[2].Get("Authorization") != "Basic dTpw" {
		t.Errorf("Finish() with basic authentication = %v, headers %v", err, h.headers)
	}
	if _, err := webhook.New(webhook.Config{URL: server.URL, Access: httpclient.Access{TLS: httpclient.TLS{CAFile: filepath.Join(dir, "none")}}}); err == nil || !strings.Contains(err.Error(), "none") {
		t.Errorf("New() with a missing file = %v, want an error", err)
	}
}

func TestValidate(t *testing.T) {
	for _, c := range []struct {
		config webhook.Config
		want   string
	}{
		{webhook.Config{URL: "https://drain.example.com/x?y=1"}, ""},
		{webhook.Config{}, "url"},
		{webhook.Config{URL: "ftp://drain.example.com"}, "url"},
		{webhook.Config{URL: "https://u:p@drain.example.com"}, "url"},
		{webhook.Config{URL: "http://h", Timeout: time.Hour}, "timeout"},
		{webhook.Config{URL: "http://h", Access: httpclient.Access{BasicAuth: &httpclient.BasicAuth{}, TokenFile: "t"}}, "basic_auth.username token_file"},
		{webhook.Config{URL: "http://h", Access: httpclient.Access{Headers: map[string]string{"Authorization": "x", "Content-Type": "x", "a b": "x", "ok": "x"}}}, "headers.Authorization headers.Content-Type headers.a b"},
		{webhook.Config{URL: "http://h", HeaderFiles: map[string]string{"Host": "x"}}, "header_files.Host"},
		{webhook.Config{URL: "http://h", Access: httpclient.Access{TLS: httpclient.TLS{CertFile: "c"}}}, "tls.key_file"},
		{webhook.Config{URL: "http://h", Access: httpclient.Access{TLS: httpclient.TLS{KeyFile: "k"}}}, "tls.cert_file"},
	} {
		c.config.SetDefaults()
		var fields []string
		for _, mistake := range c.config.Validate() {
			fields = append(fields, mistake.Field)
			if strings.Contains(mistake.Error(), "u:p") {
				t.Errorf("error contains a secret: %v", mistake)
			}
		}
		if got := strings.Join(fields, " "); got != c.want {
			t.Errorf("%+v: invalid fields = %q, want %q", c.config, got, c.want)
		}
	}
}
