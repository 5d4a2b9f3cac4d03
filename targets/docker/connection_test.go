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

// TestFilesChange checks that changed files are read again. If the files cannot be used, this
// is reported and the old files remain in use.
func TestFilesChange(t *testing.T) {
	clearEnvironment(t)
	server := httptest.NewTLSServer(&fakeEngine{version: "1.41"})
	t.Cleanup(server.Close)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(ca, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	good := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	write(good)
	e := connect(t, "tcp://"+server.Listener.Addr().String(), func(c *Config) { c.TLS = &httpclient.TLS{CAFile: ca} })
	if err := inspect(e); err != nil || e.Problems() != nil {
		t.Fatalf("Read() = %v with problems %q", err, e.Problems())
	}
	first := e.link.Load().transport

	write("half a certificate")
	if err := inspect(e); err != nil {
		t.Errorf("Read() after the file was spoiled = %v", err)
	}
	if got := e.Problems(); len(got) != 1 || !strings.Contains(got[0], "docker at "+e.config.Host) || !strings.Contains(got[0], ca) {
		t.Errorf("problems %q, want one with the file", got)
	}
	if e.link.Load().transport != first {
		t.Error("there are new connections for a file that cannot be used")
	}
	server.CloseClientConnections()
	server.Close()
	if err := inspect(e); !errors.Is(err, targets.ErrTransient) || !strings.Contains(err.Error(), "its files have changed and cannot be used") {
		t.Errorf("Read() with the old file and no engine = %v, want that the new one is told", err)
	}

	write(good + "\n")
	if err := inspect(e); err == nil || strings.Contains(err.Error(), "its files") || e.Problems() != nil {
		t.Errorf("Read() after the file was mended = %v with problems %q", err, e.Problems())
	}
	if e.link.Load().transport == first {
		t.Error("the connections are still those of before the file changed")
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
		{"no authority", other, &httpclient.TLS{}, "; set tls.ca_file to the authority of the engine's certificate"},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := inspect(connect(t, test.host, func(c *Config) { c.TLS = test.tls }))
			if !errors.Is(err, targets.ErrTransient) || !strings.HasSuffix(err.Error(), test.want) {
				t.Errorf("Read() = %v, want ErrTransient that ends with %q", err, test.want)
			}
		})
	}
}
