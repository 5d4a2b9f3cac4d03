package prometheus

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hpad/hpad/settings/httpclient"
	"github.com/hpad/hpad/sources"
)

// write writes a file and returns its path.
func write(t testing.TB, path string, content []byte) string {
	t.Helper()
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func certificatePEM(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// serveTLS runs an HTTPS server for example.com and 127.0.0.1, and returns the path of its
// certificate.
func serveTLS(t testing.TB, handler http.HandlerFunc, edit func(*tls.Config)) (server *httptest.Server, caFile string) {
	t.Helper()
	server = httptest.NewUnstartedServer(handler)
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // the test causes failed handshakes
	server.EnableHTTP2 = true
	server.TLS = &tls.Config{}
	if edit != nil {
		edit(server.TLS)
	}
	server.StartTLS()
	t.Cleanup(server.Close)
	return server, write(t, filepath.Join(t.TempDir(), "ca.pem"), certificatePEM(server.Certificate().Raw))
}

// newClientCertificate returns a self-signed certificate, and the paths of the certificate and
// its key.
func newClientCertificate(t testing.TB) (certificate *x509.Certificate, certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := x509.Certificate{
		SerialNumber: big.NewInt(1),
		Subject:      pkix.Name{CommonName: "hpad"},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(time.Hour),
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err = x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	return certificate,
		write(t, filepath.Join(dir, "cert.pem"), certificatePEM(der)),
		write(t, filepath.Join(dir, "key.pem"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}))
}

// query queries once. The test fails unless the error contains want; "" means that there must
// be no error.
func query(t testing.TB, source *Source, want string) {
	t.Helper()
	_, err := source.Query(t.Context(), sources.Query{Text: "up"}, at)
	switch {
	case want == "" && err != nil:
		t.Error(err)
	case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
		t.Errorf("Query() = %v, want an error that contains %q", err, want)
	}
}

func TestTLS(t *testing.T) {
	server, caFile := serveTLS(t, recorded(t, "200-sum"), nil)
	_, otherFile, _ := newClientCertificate(t)
	for _, test := range []struct {
		name string
		tls  httpclient.TLS
		want string
	}{
		{"trusted", httpclient.TLS{CAFile: caFile}, ""},
		{"trusted by name", httpclient.TLS{CAFile: caFile, ServerName: "example.com"}, ""},
		{"wrong name", httpclient.TLS{CAFile: caFile, ServerName: "example.org"}, "certificate is valid for example.com, *.example.com, not example.org"},
		{"CA unknown to the system", httpclient.TLS{}, "certificate signed by unknown authority"},
		{"CA not in the file", httpclient.TLS{CAFile: otherFile}, "certificate signed by unknown authority"},
		{"not verified", httpclient.TLS{InsecureSkipVerify: true}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			query(t, newSource(t, server.URL, func(c *Config) { c.TLS = test.tls }), test.want)
		})
	}
}

func TestTLSFollowsFiles(t *testing.T) {
	server, caFile := serveTLS(t, recorded(t, "200-sum"), nil)
	right, err := os.ReadFile(caFile)
	if err != nil {
		t.Fatal(err)
	}
	_, otherFile, _ := newClientCertificate(t)
	wrong, err := os.ReadFile(otherFile)
	if err != nil {
		t.Fatal(err)
	}
	write(t, caFile, wrong)
	source := newSource(t, server.URL, func(c *Config) { c.TLS.CAFile = caFile })
	query(t, source, "certificate signed by unknown authority")
	write(t, caFile, right)
	query(t, source, "")
}

func TestNewErrors(t *testing.T) {
	dir := t.TempDir()
	garbage := write(t, filepath.Join(dir, "garbage.pem"), []byte("not a certificate"))
	_, certFile, keyFile := newClientCertificate(t)
	missing := filepath.Join(dir, "missing.pem")
	for _, test := range []struct {
		name string
		tls  httpclient.TLS
		want string
	}{
		{"no CA file", httpclient.TLS{CAFile: missing}, "unable to read file " + missing},
		{"invalid CA file", httpclient.TLS{CAFile: garbage}, "unable to use specified CA cert file " + garbage},
		{"no key file", httpclient.TLS{CertFile: certFile, KeyFile: missing}, "unable to read file " + missing},
		{"invalid certificate", httpclient.TLS{CertFile: garbage, KeyFile: keyFile}, "unable to use specified client cert (file " + garbage},
	} {
		t.Run(test.name, func(t *testing.T) {
			cfg := &Config{URL: "https://127.0.0.1:9090", Access: httpclient.Access{TLS: test.tls}}
			cfg.SetDefaults()
			_, err := New("prom", cfg, nil)
			if prefix := `source "prom": prepare connections to "https://127.0.0.1:9090": `; err == nil ||
				!strings.HasPrefix(err.Error(), prefix) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("New() = %v, want an error with %q and %q", err, prefix, test.want)
			}
		})
	}
}

// authorized serves a recorded response to requests whose Authorization header is current.
func authorized(t testing.TB, current *string) *httptest.Server {
	t.Helper()
	reply := recorded(t, "200-sum")
	return serve(t, func(w http.ResponseWriter, r *http.Request) {
		if got := r.Header.Get("Authorization"); got != *current {
			http.Error(w, fmt.Sprintf("bad credentials of %d characters", len(got)), http.StatusUnauthorized)
			return
		}
		reply(w, r)
	})
}

func TestToken(t *testing.T) {
	file := write(t, filepath.Join(t.TempDir(), "token"), []byte("first\n"))
	current := "Bearer first"
	server := authorized(t, &current)
	source := newSource(t, server.URL, func(c *Config) { c.TokenFile = file })
	query(t, source, "")

	current = "Bearer second"
	query(t, source, `server returned 401 Unauthorized: "bad credentials of 12 characters"`)
	write(t, file, []byte("second"))
	query(t, source, "")

	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	query(t, source, "unable to read authorization credentials: unable to read file "+file)
}

func TestBasicAuth(t *testing.T) {
	file := write(t, filepath.Join(t.TempDir(), "password"), []byte("wonderland\n"))
	current := "Basic YWxpY2U6d29uZGVybGFuZA==" // "alice:wonderland" in base64.
	server := authorized(t, &current)
	source := newSource(t, server.URL, func(c *Config) {
		c.BasicAuth = &httpclient.BasicAuth{Username: "alice", PasswordFile: file}
	})
	query(t, source, "")

	write(t, file, []byte("looking-glass"))
	query(t, source, "server returned 401 Unauthorized")
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	query(t, source, "unable to read basic auth password: unable to read file "+file)
}
