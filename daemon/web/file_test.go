package web_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hpad/hpad/daemon/web"
	"github.com/hpad/hpad/settings/webtest"
)

// tlsKeys contains the keys for a server's certificate.
const tlsKeys = "tls_server_config:\n  cert_file: server.crt\n  key_file: server.key\n"

// newDir returns a directory with a CA named "clients" and a certificate named "server".
func newDir(t *testing.T) (string, *webtest.CA) {
	t.Helper()
	dir := t.TempDir()
	authority := webtest.NewCA(t, dir, "clients")
	authority.Issue(t, "server")
	return dir, authority
}

// TestCheck checks that an error about a file contains a position but no secrets from the file.
func TestCheck(t *testing.T) {
	const hash = "$2a$04$hunter2hunter2"
	good := webtest.Hash(t, "hunter2")
	for _, test := range []struct{ name, text, want string }{
		{"empty file", "", ""},
		{"TLS", tlsKeys, ""},
		{"users", "basic_auth_users:\n  alice: " + good + "\n", ""},
		{"client certificates", tlsKeys + "  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: clients.crt\n", ""},
		{"invalid YAML", "{", "did not find expected node content"},
		{"unknown key", "basic_auth: {}\n", "line 1: field basic_auth not found"},
		{"unknown key of TLS", tlsKeys + "  ca_file: x\n", "line 4: field ca_file not found"},
		{"password without hash", "basic_auth_users:\n  alice: hunter2\n", `basic_auth_users: the hash of user "alice": crypto/bcrypt: hashedSecret too short`},
		{"invalid bcrypt hash", "basic_auth_users:\n  bob: " + hash + strings.Repeat("x", 60) + "\n  al: 12345\n", `user "al"`},
		{"password in the wrong place", "basic_auth_users: hunter2\n", "cannot unmarshal !!str `…` into map"},
		{"password with a backquote", "basic_auth_users: x`hunter2\n", "line 1: cannot unmarshal !!str `…` into map"},
		{"password with a star", "basic_auth_users:\n  alice: *hunter2\n", "unknown anchor '…' referenced; quote a value that starts with *"},
		{"two errors", "users: {}\nheaders: {}\n", "line 1: field users not found in type web.Config; line 2: field headers not found in type web.Config"},
		{"no key", "tls_server_config:\n  cert_file: server.crt\n", "missing one of key or key_file"},
		{"missing certificate", strings.Replace(tlsKeys, "server.crt", "missing.crt", 1), "missing.crt: no such file"},
		{"key of another certificate", strings.Replace(tlsKeys, "server.crt", "clients.crt", 1), "private key does not match public key"},
		{"unknown client_auth_type", tlsKeys + "  client_auth_type: Sometimes\n", "invalid ClientAuth: Sometimes"},
		{"CA without policy", tlsKeys + "  client_ca_file: clients.crt\n", "without a Client Auth Policy"},
		{"any system CA", tlsKeys + "  client_auth_type: RequireAndVerifyClientCert\n", "all CAs that the system trusts"},
		{"CA file without certificate", tlsKeys + "  client_auth_type: VerifyClientCertIfGiven\n  client_ca_file: server.key\n", "contains no PEM certificate"},
		{"unknown header", "http_server_config:\n  headers:\n    Server: hpad\n", `HTTP header "Server" can not be configured`},
		{"too large", strings.Repeat("#", 1<<20+1), "larger than 1048576 bytes"},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir, _ := newDir(t)
			path := webtest.Write(t, dir, "web.yml", test.text)
			err := web.Check(path)
			if test.want == "" {
				if err != nil {
					t.Errorf("error = %v, want none", err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Fatalf("error = %v, want %q", err, test.want)
			}
			if strings.Contains(err.Error(), "hunt") || strings.Contains(err.Error(), "12345") {
				t.Errorf("error %v contains a secret", err)
			}
		})
	}
	if err := web.Check(t.TempDir()); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("error for a directory = %v", err)
	}
	if err := web.Check("/nonexistent/web.yml"); err == nil || !strings.Contains(err.Error(), "create it or name another file") {
		t.Errorf("error for a missing file = %v", err)
	}
}

// TestExample checks that the example is valid if its files exist, and also with the commented keys
// enabled.
func TestExample(t *testing.T) {
	example, err := os.ReadFile("../../configs/web.yml")
	if err != nil {
		t.Fatal(err)
	}
	dir, authority := newDir(t)
	for from, to := range map[string]string{"server.crt": "web.crt", "server.key": "web.key"} {
		if err := os.Rename(filepath.Join(dir, from), filepath.Join(dir, to)); err != nil {
			t.Fatal(err)
		}
	}
	whole := string(example)
	for _, key := range []string{"client_auth_type", "client_ca_file", "client_allowed_sans"} {
		before := whole
		if whole = strings.Replace(whole, "# "+key, key, 1); whole == before {
			t.Errorf("the example does not contain %s in a comment", key)
		}
	}
	for name, text := range map[string]string{"unchanged": string(example), "with all keys": whole} {
		if err := web.Check(webtest.Write(t, dir, "web.yml", text)); err != nil {
			t.Errorf("%s: %v (CA %s)", name, err, authority.File)
		}
	}
}

// TestIsExposed checks that passwords without TLS are detected.
func TestIsExposed(t *testing.T) {
	users := "basic_auth_users:\n  alice: " + webtest.Hash(t, "wonder") + "\n"
	for config, want := range map[string]bool{"": false, tlsKeys: false, users: true, tlsKeys + users: false} {
		dir, _ := newDir(t)
		if got := web.IsExposed(webtest.Write(t, dir, "web.yml", config)); got != want {
			t.Errorf("IsExposed = %t, want %t, for\n%s", got, want, config)
		}
	}
}
