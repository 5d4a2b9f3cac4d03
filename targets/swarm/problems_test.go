package swarm

import (
	"encoding/pem"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hpad/hpad/targets"
)

// TestFileThatIsSpoiled: certificates that were replaced by what is none are reported,
// and disturb nothing.
func TestFileThatIsSpoiled(t *testing.T) {
	server := httptest.NewTLSServer(newImitation(t))
	t.Cleanup(server.Close)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	host := "tcp://" + server.Listener.Addr().String()
	c := testConfig(t, host, func(c *Config) { c.TLS, c.Nodes = tlsOf(ca), map[string]string{"node-1": host} })
	f, err := New("live", c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	read := func() {
		t.Helper()
		if _, err := f.Snapshot(t.Context(), []targets.Ref{{Fleet: "live", Name: "web"}}); err != nil {
			t.Errorf("Snapshot() = %v", err)
		}
	}
	read()
	if got := f.Problems(); len(got) > 0 {
		t.Errorf("problems %q without any", got)
	}
	if err := os.WriteFile(ca, []byte("half a certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	read()
	if got := f.Problems(); len(got) != 1 || !strings.Contains(got[0], ca) {
		t.Errorf("problems %q, want one with the file", got)
	}
}
