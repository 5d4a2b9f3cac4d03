package docker

import (
	"encoding/pem"
	"errors"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hpad/hpad/settings/httpclient"
	"github.com/hpad/hpad/targets"
)

// TestFilesChange checks that changed files are read again, and that the error of a file that
// cannot be used contains its name.
func TestFilesChange(t *testing.T) {
	clearEnvironment(t)
	server := httptest.NewTLSServer(&fakeEngine{version: "1.41"})
	t.Cleanup(server.Close)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	good := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	var e *Engine
	for _, text := range []string{good, "half a certificate", good} {
		if err := os.WriteFile(ca, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if e == nil {
			e = connect(t, "tcp://"+server.Listener.Addr().String(), func(c *Config) { c.TLS = &httpclient.TLS{CAFile: ca} })
		}
		err := inspect(e)
		if text == good && err != nil || text != good && (!errors.Is(err, targets.ErrTransient) || !strings.Contains(err.Error(), ca)) {
			t.Errorf("Read() with %q = %v", text, err)
		}
	}
}

// TestAdvice checks that TLS errors contain a remedy.
func TestAdvice(t *testing.T) {
	clearEnvironment(t)
	sealed := httptest.NewTLSServer(&fakeEngine{version: "1.41"})
	t.Cleanup(sealed.Close)
	plain := serve(t, &fakeEngine{version: "1.41"})
	other := "tcp://" + sealed.Listener.Addr().String()
	for _, test := range []struct {
		name, host string
		tls        *httpclient.TLS
		want       string
	}{
		{"plain to TLS", other, nil, "; the engine requires TLS: add a tls table with ca_file, cert_file and key_file"},
		{"TLS to plain", plain, &httpclient.TLS{}, "; the engine does not use TLS: remove the tls table, or start the engine with --tlsverify"},
		{"no authority", other, &httpclient.TLS{}, "; set tls.ca_file to the CA of the engine's certificate"},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := inspect(connect(t, test.host, func(c *Config) { c.TLS = test.tls }))
			if !errors.Is(err, targets.ErrTransient) || !strings.HasSuffix(err.Error(), test.want) {
				t.Errorf("Read() = %v, want an ErrTransient that ends with %q", err, test.want)
			}
		})
	}
}
