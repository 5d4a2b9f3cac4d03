package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestEndpointsFile checks that the file of the endpoints belongs to one autoscaler and not to hpad.
func TestEndpointsFile(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{"etc", "state", "state/sub"} {
		if err := os.Mkdir(path(name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for link, target := range map[string]string{"link": "etc/web.map", "etc-link": "etc", "state-link": "state", "null": "/dev/null", "into-state": "state/x"} {
		if err := os.Symlink(target, path(link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(path("etc/web.map"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(path("etc/web.map"), path("hard")); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct{ first, second, want string }{
		"two files":             {"etc/a.map", "etc/b.map", ""},
		"one name":              {"etc/web.map", "etc/web.map", `is already the file of autoscaler "a"`},
		"link":                  {"etc/web.map", "link", `is already the file of autoscaler "a"`},
		"hard link":             {"etc/web.map", "hard", `is already the file of autoscaler "a"`},
		"linked directory":      {"etc/web.map", "etc-link/web.map", `is already the file of autoscaler "a"`},
		"absent file":           {"etc/new.map", "etc-link/new.map", `is already the file of autoscaler "a"`},
		"state":                 {"etc/web.map", "state/state.db", "is in daemon.state_dir"},
		"below the state":       {"etc/web.map", "state/sub/web.map", "is in daemon.state_dir"},
		"link to the state":     {"etc/web.map", "state-link/web.map", "is in daemon.state_dir"},
		"link into the state":   {"etc/web.map", "into-state", "is in daemon.state_dir"},
		"similar directory":     {"etc/web.map", "state-2/web.map", ""},
		"device":                {"etc/web.map", "null", "is not a regular file"},
		"socket":                {"etc/web.map", "hpad.sock", "is a file of hpad itself"},
		"configuration of hpad": {"etc/web.map", "hpad.toml", "is a file of hpad itself"},
	} {
		t.Run(name, func(t *testing.T) {
			text := fmt.Sprintf(`
[daemon]
state_dir = %q
socket = %q
[fleets.local]
kind = "process"
services = { a = { command = ["a"] }, b = { command = ["b"] } }
[autoscalers.a]
max_replicas = 2
target = { fleet = "local", service = "a", endpoints = { file = %q } }
[autoscalers.b]
max_replicas = 2
target = { fleet = "local", service = "b", endpoints = { file = %q } }
`, path("state"), path("hpad.sock"), path(test.first), path(test.second))
			if err := os.WriteFile(path("hpad.toml"), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := Load(t.Context(), path("hpad.toml"))
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("the error is %v, want %q", err, test.want)
			}
		})
	}
}
