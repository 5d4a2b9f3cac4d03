package prometheus

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
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
func serveTLS(t testing.TB, handler http.HandlerFunc) (server *httptest.Server, caFile string) {
	t.Helper()
	server = httptest.NewUnstartedServer(handler)
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // the test causes failed handshakes
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	return server, write(t, filepath.Join(t.TempDir(), "ca.pem"), certificatePEM(server.Certificate().Raw))
}

// newCertificate returns a self-signed certificate in PEM format.
func newCertificate(t testing.TB) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := x509.Certificate{
		SerialNumber: big.NewInt(1),
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return certificatePEM(der)
}

// query runs one query. The test fails unless the error contains want. If want is "", the query
// must succeed.
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

func TestTLSFollowsFiles(t *testing.T) {
	server, caFile := serveTLS(t, recorded(t, "200-sum"))
	right, err := os.ReadFile(caFile)
	if err != nil {
		t.Fatal(err)
	}
	write(t, caFile, newCertificate(t))
	source := newSource(t, server.URL, func(c *Config) { c.TLS.CAFile = caFile })
	query(t, source, "certificate signed by unknown authority")
	write(t, caFile, right)
	query(t, source, "")
}

func TestNewErrors(t *testing.T) {
	dir := t.TempDir()
	garbage := write(t, filepath.Join(dir, "garbage.pem"), []byte("not a certificate"))
	missing := filepath.Join(dir, "missing.pem")
	for _, test := range []struct {
		name string
		tls  httpclient.TLS
		want string
	}{
		{"no CA file", httpclient.TLS{CAFile: missing}, "unable to read file " + missing},
		{"invalid CA file", httpclient.TLS{CAFile: garbage}, "unable to use specified CA cert file " + garbage},
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

// authorized returns a server that returns a recorded response if the Authorization header equals
// *current, and otherwise status 401.
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
	query(t, source, "unable to read authorization credentials: open "+file)
}
