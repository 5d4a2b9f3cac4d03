package embedded

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/hpad/hpad/settings/httpclient"
	"github.com/hpad/hpad/settings/webtest"
	"github.com/hpad/hpad/sources"
)

// protected returns an exporter with TLS that requires a client certificate and a header, and the
// settings of the connection without the header.
func protected(t *testing.T, authorization func() string) (*httptest.Server, httpclient.Access) {
	t.Helper()
	dir := t.TempDir()
	authority := webtest.NewCA(t, dir, "authority")
	certificate, key := authority.Issue(t, "exporter")
	pair, err := tls.LoadX509KeyPair(certificate, key)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(authority.File)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(text)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if got := r.Header.Get("Authorization"); got != authorization() {
			http.Error(w, "rejected "+got, http.StatusUnauthorized)
			return
		}
		w.Header().Set("Content-Type", textFormat)
		fmt.Fprintln(w, "load 1")
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // the test causes failed handshakes
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert}
	server.StartTLS()
	t.Cleanup(server.Close)
	access := httpclient.Access{TLS: httpclient.TLS{CAFile: authority.File}}
	access.TLS.CertFile, access.TLS.KeyFile = authority.Issue(t, "hpad")
	return server, access
}

// TestProtectedEndpoints checks TLS with client certificates, the ways of authentication, and that the
// errors name their causes.
func TestProtectedEndpoints(t *testing.T) {
	var want atomic.Value
	want.Store("Bearer Token-of-exporter-1")
	server, access := protected(t, func() string { return want.Load().(string) })
	address := server.Listener.Addr().String()
	token := webtest.Write(t, t.TempDir(), "token", "Token-of-exporter-1\n")
	probe := func(problem string, edit func(s *Scrape)) {
		t.Helper()
		s := Scrape{Addresses: []string{address}, Scheme: "https", Access: access}
		s.TokenFile = token
		edit(&s)
		cfg := &Config{Dir: filepath.Join(t.TempDir(), "data"), Scrape: []Scrape{s}}
		cfg.SetDefaults()
		if errs := cfg.Validate(); len(errs) > 0 {
			t.Fatal(errs)
		}
		source, err := New("local", cfg, sources.Env{})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = source.Close() }()
		problems, err := source.Check(t.Context())
		prefix := fmt.Sprintf(`job "static": scrape %s://%s/metrics: `, s.Scheme, address)
		switch {
		case problem == "" && (err != nil || len(problems) > 0):
			t.Errorf("Check() = %q, %v", problems, err)
		case problem != "" && (err == nil || !strings.HasPrefix(problems[0], prefix) || !strings.Contains(problems[0], problem)):
			t.Errorf("Check() = %q, %v, want %s", problems, err, problem)
		}
	}
	probe("", func(*Scrape) {})
	probe("certificate signed by unknown authority", func(s *Scrape) { s.TLS.CAFile = "" })
	probe("certificate required", func(s *Scrape) { s.TLS.CertFile, s.TLS.KeyFile = "", "" })
	probe("not other.example", func(s *Scrape) { s.TLS.ServerName = "other.example" })
	probe("400 Bad Request", func(s *Scrape) { s.Scheme = "http" })
	probe(`401 Unauthorized: "rejected`, func(s *Scrape) { s.TokenFile = "" })
	probe("open "+token+"2: no such file", func(s *Scrape) { s.TokenFile = token + "2" })
	probe("get an access token from \"http://127.0.0.1:1/token\": ", func(s *Scrape) {
		s.TokenFile, s.OAuth2 = "", &httpclient.OAuth2{TokenURL: "http://127.0.0.1:1/token", ClientID: "hpad", ClientSecretFile: token}
	})
	want.Store("Basic aHBhZDpUb2tlbi1vZi1leHBvcnRlci0x")
	probe("", func(s *Scrape) {
		s.TokenFile, s.BasicAuth = "", &httpclient.BasicAuth{Username: "hpad", PasswordFile: token}
	})
	if _, err := New("local", &Config{Scrape: []Scrape{{Access: httpclient.Access{TLS: httpclient.TLS{CAFile: "/nonexistent"}}}}}, sources.Env{}); err == nil ||
		!strings.Contains(err.Error(), `source "local": scrape[0]: unable to read CA cert: unable to read file /nonexistent`) {
		t.Errorf("New() = %v, want an error about the CA file", err)
	}
}

// TestHonorLabels checks which labels win.
func TestHonorLabels(t *testing.T) {
	e := newExporter(t, `load{instance="web-1",job="web",zone="x"} 1`+"\n")
	for honor, want := range map[bool]string{
		true:  `{__name__="load",instance="web-1",job="web",team="shop",zone="x"} 1`,
		false: fmt.Sprintf(`{__name__="load",exported_instance="web-1",exported_job="web",instance="%s",job="static",team="shop",zone="x"} 1`, e.address()),
	} {
		cfg := config(e.address())
		cfg.Scrape[0].HonorLabels, cfg.Scrape[0].Labels = honor, map[string]string{"team": "shop"}
		eventually(t, started(t, cfg, sources.Env{}), "load", want)
	}
}
