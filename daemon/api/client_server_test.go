package api_test

import (
	"testing"

	"github.com/hpad/hpad/daemon/api"
)

// TestExposedTo checks that a password is exposed if it leaves the host without TLS.
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
			t.Errorf("a password for %q is exposed to %q, want %q", url, got, want)
		}
	}
	if got := (api.Server{URL: "http://vm1:4720", CertFile: "x", KeyFile: "y"}).ExposedTo(); got != "" {
		t.Errorf("no password is exposed to %q", got)
	}
}
