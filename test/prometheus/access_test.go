package prometheus_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hpad/hpad/settings/httpclient"
	"github.com/hpad/hpad/settings/webtest"
	"github.com/hpad/hpad/sources"
	"github.com/hpad/hpad/sources/prometheus"
	"github.com/hpad/hpad/test/prometheus/promtest"
	"github.com/hpad/hpad/test/wait"
)

// build returns a source for a server.
func build(t *testing.T, url string, edit func(c *prometheus.Config)) *prometheus.Source {
	t.Helper()
	cfg := &prometheus.Config{URL: url}
	edit(cfg)
	cfg.SetDefaults()
	for _, invalid := range cfg.Validate() {
		t.Fatal(invalid)
	}
	source, err := prometheus.New("prom", cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = source.Close() })
	return source
}

// check runs a query that returns 7. If want is not empty, the error must contain it and not blame the
// query.
func check(t *testing.T, source *prometheus.Source, want string) {
	t.Helper()
	vector, err := source.Query(t.Context(), sources.Query{Text: "vector(3) + 4"}, time.Now())
	_, blamed := errors.AsType[*sources.QueryError](err)
	switch {
	case want == "" && (err != nil || len(vector.Series) != 1 || vector.Series[0].Value != 7):
		t.Errorf("Query() = %v, %v", vector.Series, err)
	case want != "" && (err == nil || !strings.Contains(err.Error(), want) || blamed):
		t.Errorf("Query() = %v, want an error that contains %q", err, want)
	}
}

// TestTLSAndBasicAuth queries a real server with TLS and basic authentication.
func TestTLSAndBasicAuth(t *testing.T) {
	dir := t.TempDir()
	authority := webtest.NewCA(t, dir, "authority")
	cert, key := authority.Issue(t, "server")
	const password = "Password-of-hpad-1"
	config := webtest.Write(t, dir, "web.yml", fmt.Sprintf(
		"tls_server_config: { cert_file: %s, key_file: %s }\nbasic_auth_users: { hpad: %q }\n", cert, key, webtest.Hash(t, password)))
	server := promtest.Start(t, "", "--web.config.file="+config)
	file := webtest.Write(t, dir, "password", password+"\n")
	access := func(c *prometheus.Config) {
		c.BasicAuth = &httpclient.BasicAuth{Username: "hpad", PasswordFile: file}
		c.TLS.CAFile = authority.File
	}
	source := build(t, server.URL, access)
	check(t, source, "")
	webtest.Write(t, dir, "password", "another")
	check(t, source, `server returned 401 Unauthorized: "Unauthorized"; check the credentials`)
	webtest.Write(t, dir, "password", password)
	check(t, source, "")

	stranger := webtest.NewCA(t, t.TempDir(), "stranger")
	for _, test := range []struct {
		name string
		edit func(c *prometheus.Config)
		want string
	}{
		{"no CA", func(c *prometheus.Config) { c.TLS.CAFile = "" }, "certificate signed by unknown authority"},
		{"other CA", func(c *prometheus.Config) { c.TLS.CAFile = stranger.File }, "certificate signed by unknown authority"},
		{"other name", func(c *prometheus.Config) { c.TLS.ServerName = "prometheus.example" }, "not prometheus.example"},
		{"no credentials", func(c *prometheus.Config) { c.BasicAuth = nil }, "401 Unauthorized"},
		{"no verification", func(c *prometheus.Config) { c.TLS = httpclient.TLS{InsecureSkipVerify: true} }, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			check(t, build(t, server.URL, func(c *prometheus.Config) {
				access(c)
				test.edit(c)
			}), test.want)
		})
	}
	check(t, build(t, strings.Replace(server.URL, "https", "http", 1), access), "400 Bad Request")
}

// proxy runs a proxy in front of a server. It sends a request to the server if allow returns 0, and
// otherwise responds with the returned status.
func proxy(t *testing.T, to string, allow func(r *http.Request) int) string {
	t.Helper()
	address, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	next := &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(address) },
		Transport: &http.Transport{DisableKeepAlives: true},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if status := allow(r); status != 0 {
			http.Error(w, "rejected by the proxy", status)
			return
		}
		next.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// TestProxyRejectsPost queries a real server through proxies that reject POST, and through one that
// rejects all requests.
func TestProxyRejectsPost(t *testing.T) {
	server := promtest.Start(t, "")
	for _, status := range []int{http.StatusMethodNotAllowed, http.StatusNotImplemented, http.StatusForbidden} {
		posts := 0
		address := proxy(t, server.URL, func(r *http.Request) int {
			switch {
			case r.URL.Query().Get("namespace") != "shop": // a proxy cannot see the form
				return http.StatusBadRequest
			case r.Method != http.MethodPost:
				return 0
			}
			posts++
			return status
		})
		source := build(t, address, func(c *prometheus.Config) { c.Params = map[string]string{"namespace": "shop"} })
		check(t, source, "")
		if _, err := source.Query(t.Context(), sources.Query{Text: "sum("}, time.Now()); err == nil || !strings.Contains(err.Error(), "parse error") {
			t.Errorf("invalid query: %v", err)
		}
		check(t, source, "")
		if posts != 1 {
			t.Errorf("%d queries were POST with status %d, want 1", posts, status)
		}
	}
	denied := proxy(t, server.URL, func(*http.Request) int { return http.StatusForbidden })
	check(t, build(t, denied, func(*prometheus.Config) {}), `server returned 403 Forbidden: "rejected by the proxy"`)
}

// TestExpiringTokens queries a real server through a proxy that accepts only tokens that have not
// expired.
func TestExpiringTokens(t *testing.T) {
	var mu sync.Mutex
	issued, expires := 0, time.Time{}
	tokens := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		issued++
		const lifetime = 11 // hpad renews 10 seconds before the end
		expires = time.Now().Add(lifetime * time.Second)
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"access_token":"Token-of-prometheus-%d","token_type":"Bearer","expires_in":%d}`, issued, lifetime)
	}))
	t.Cleanup(tokens.Close)
	server := promtest.Start(t, "")
	address := proxy(t, server.URL, func(r *http.Request) int {
		mu.Lock()
		defer mu.Unlock()
		if r.Header.Get("Authorization") != fmt.Sprintf("Bearer Token-of-prometheus-%d", issued) || time.Now().After(expires) {
			return http.StatusUnauthorized
		}
		return 0
	})
	file := webtest.Write(t, t.TempDir(), "secret", "Secret-of-hpad-1")
	source := build(t, address, func(c *prometheus.Config) {
		c.OAuth2 = &httpclient.OAuth2{TokenURL: tokens.URL + "/token", ClientID: "hpad", ClientSecretFile: filepath.Clean(file)}
	})
	wait.For(t, time.Minute, "three tokens", func() (string, bool) {
		check(t, source, "")
		mu.Lock()
		defer mu.Unlock()
		return fmt.Sprint(issued), issued == 3
	})
	tokens.Close()
	mu.Lock()
	expires = time.Time{}
	mu.Unlock()
	wait.For(t, time.Minute, "the failure of the token endpoint", func() (string, bool) {
		_, err := source.Query(t.Context(), sources.Query{Text: "up"}, time.Now())
		return fmt.Sprint(err), err != nil && strings.Contains(err.Error(), `get an access token from "`+tokens.URL+`/token": `) && strings.Contains(err.Error(), "connection refused")
	})
}
