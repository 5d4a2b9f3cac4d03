package api_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/policy"
)

// TestExposedTo checks that ExposedTo returns a remote host only if the password would be sent to
// it without TLS.
func TestExposedTo(t *testing.T) {
	alice := api.Server{Username: "alice", PasswordFile: "password"}
	for url, want := range map[string]string{
		"http://vm1:4720": "vm1:4720", "HTTP://192.0.2.10": "192.0.2.10", "http://[2001:db8::1]:4720/hpad": "[2001:db8::1]:4720", "http://localhost.example.com": "localhost.example.com",
		"http://0.0.0.0:4720": "0.0.0.0:4720", "http://127.0.0.1.example.com:1": "127.0.0.1.example.com:1",
		"https://vm1:4720": "", "http://127.0.0.1:4720": "", "http://127.9.9.9": "", "http://[::1]:4720": "", "http://[::ffff:127.0.0.1]:4720": "",
		"http://localhost:4720": "", "http://LocalHost.:4720": "", "http://vm1.localhost": "", "vm1:4720": "", "http://[": "", "": "",
	} {
		alice.URL = url
		if got := alice.ExposedTo(); got != want {
			t.Errorf("ExposedTo() for %q = %q, want %q", url, got, want)
		}
	}
	if got := (api.Server{URL: "http://vm1:4720", CertFile: "x", KeyFile: "y"}).ExposedTo(); got != "" {
		t.Errorf("ExposedTo() without a password = %q, want none", got)
	}
}

// TestRequireTLS checks that a password is not sent to an address that a different member wrote,
// unless the address is https or loopback.
func TestRequireTLS(t *testing.T) {
	password := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(password, []byte("wonder"), 0o600); err != nil {
		t.Fatal(err)
	}
	for url, want := range map[string]string{
		"http://192.0.2.1:4720": "the password is sent only over TLS", "http://127.0.0.1:1": "connection refused", "https://127.0.0.1:1": "connection refused",
	} {
		client := api.NewServerClient(api.Server{URL: url, Username: "members", PasswordFile: password, RequireTLS: true})
		if _, err := api.Get[[]policy.Pause](t.Context(), client, api.Path("pauses"), nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("request to %s = %v, want %q", url, err, want)
		}
	}
}
