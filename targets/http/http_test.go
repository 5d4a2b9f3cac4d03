package http

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hpad/hpad/targets"
)

var web = targets.Ref{Fleet: "f", Name: "web"}

// build returns a fleet whose adapter responds to all calls except "describe" with a function.
func build(t *testing.T, config *Config, respond http.HandlerFunc) targets.Fleet {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if path.Base(r.URL.Path) == "describe" {
			_, _ = io.WriteString(w, `{"protocol": 1}`)
			return
		}
		respond(w, r)
	}))
	t.Cleanup(server.Close)
	config.URL = server.URL + "/fleet/"
	config.Timeout = time.Second
	config.SetDefaults()
	if errs := config.Validate(); errs != nil {
		t.Fatal(errs)
	}
	fleet, err := config.Build("f", targets.Env{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = fleet.(io.Closer).Close() })
	return fleet
}

// TestFaults checks the errors of reads and writes after faults of a server.
func TestFaults(t *testing.T) {
	status := func(code int, text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(code)
			_, _ = io.WriteString(w, text)
		}
	}
	for name, test := range map[string]struct {
		respond http.HandlerFunc
		class   error
		unknown bool
		want    string
	}{
		"unauthorized":    {status(401, ""), targets.ErrForbidden, false, "the status is 401 Unauthorized"},
		"throttled":       {status(429, "slow down"), targets.ErrThrottled, false, `throttled (retry after 7s): the status is 429 Too Many Requests; the response begins with "slow down"`},
		"no such page":    {status(404, "nothing here"), targets.ErrTransient, false, `the status is 404 Not Found; the response begins with "nothing here"`},
		"redirect":        {status(302, ""), targets.ErrTransient, false, "the status is 302 Found"},
		"gateway timeout": {status(504, strings.Repeat("x", 1000)), targets.ErrTransient, true, `the status is 504 Gateway Timeout; the response begins with "xxx`},
		"no content":      {status(204, ""), targets.ErrTransient, false, "the status is 204 No Content"},
		"page":            {status(200, "<html>"), targets.ErrTransient, true, `invalid response: invalid character '<' at start of value; it begins with "<html>"`},
		"another id":      {status(200, `{"id": "x"}`), targets.ErrTransient, true, `the id is "x" instead of`},
		"oversized":       {status(200, strings.Repeat("y", 17<<20)), targets.ErrTransient, true, "the response has more than 16777216 bytes; it begins with \"yyy"},
		"closed":          {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, targets.ErrTransient, true, "EOF"},
		"hangs":           {func(_ http.ResponseWriter, r *http.Request) { _, _ = io.ReadAll(r.Body); <-r.Context().Done() }, targets.ErrTransient, true, "no response within the fleet's timeout of 1s"},
	} {
		t.Run(name, func(t *testing.T) {
			fleet := build(t, &Config{}, test.respond)
			_, err := fleet.Snapshot(t.Context(), []targets.Ref{web})
			if !errors.Is(err, test.class) || errors.Is(err, targets.ErrUnknownOutcome) || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), `read fleet "f": call "snapshot"`) || len(err.Error()) > 500 {
				t.Errorf("Snapshot() = %v, want %v with %q", err, test.class, test.want)
			}
			err = build(t, &Config{}, test.respond).SetReplicas(t.Context(), web, 4, "3/1", "test")
			if !errors.Is(err, test.class) || errors.Is(err, targets.ErrUnknownOutcome) != test.unknown {
				t.Errorf("SetReplicas() = %v, want %v, unknown outcome: %v", err, test.class, test.unknown)
			}
		})
	}
}

// TestConnection checks the URLs, headers and credentials of requests.
func TestConnection(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	config := &Config{}
	config.TokenFile, config.Headers = token, map[string]string{"X-Team": "shop"}
	got := ""
	fleet := build(t, config, func(w http.ResponseWriter, r *http.Request) {
		got = fmt.Sprint(r.Method, r.URL.Path, r.Header.Get("Authorization"), r.Header.Get("X-Team"), r.Header.Get("Content-Type"))
		_, _ = io.WriteString(w, `{"targets": {"web": {"count": 3}}}`)
	})
	readings, err := fleet.Snapshot(t.Context(), []targets.Ref{web})
	if err != nil || readings[web].SpecReplicas != 3 {
		t.Errorf("Snapshot() = %+v, %v", readings, err)
	}
	if want := "POST/fleet/snapshotBearer secretshopapplication/json"; got != want {
		t.Errorf("request = %q, want %q", got, want)
	}
}

func TestValidate(t *testing.T) {
	for address, want := range map[string]string{"": "must be the URL of an adapter", "http://u:p@h": "use basic_auth, token_file or oauth2", "http://h/?a": "must end with the path", "http://h/a": ""} {
		config := &Config{URL: address}
		config.SetDefaults()
		if got := fmt.Sprint(config.Validate()); want == "" && got != "[]" || !strings.Contains(got, want) || strings.Contains(got, "u:p") {
			t.Errorf("Validate() of %q = %s, want %q", address, got, want)
		}
	}
}
