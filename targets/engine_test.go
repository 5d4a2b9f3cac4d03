package targets

import (
	"os"
	"path/filepath"
	"testing"
)

func TestSocketPath(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	run := filepath.Join(dir, "run")
	if err := os.Mkdir(run, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(run, "engine.sock"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for link, to := range map[string]string{"var-run": "run", "mine.sock": "run/engine.sock"} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	for given, want := range map[string]string{
		dir + "/run/engine.sock":       run + "/engine.sock",
		dir + "//run/./engine.sock":    run + "/engine.sock",
		dir + "/var-run/engine.sock":   run + "/engine.sock",
		dir + "/mine.sock":             run + "/engine.sock",
		dir + "/var-run/missing.sock":  run + "/missing.sock",
		dir + "/var-run/no/where.sock": run + "/no/where.sock",
		"engine.sock":                  "engine.sock",
		"/":                            "/",
	} {
		if got := SocketPath(given); got != want {
			t.Errorf("SocketPath(%s) = %s, want %s", given, got, want)
		}
	}
}

func TestServiceAddress(t *testing.T) {
	for given, want := range map[string]string{
		"http://127.0.0.1:4646":                      "localhost:4646",
		"http://localhost:4646/":                     "localhost:4646",
		"http://[::1]:4646":                          "[::1]:4646",
		"http://127.0.0.2:4646":                      "127.0.0.2:4646",
		"https://Nomad.example.com":                  "nomad.example.com:443",
		"https://nomad.example.com.:443/":            "nomad.example.com:443",
		"http://nomad.example.com":                   "nomad.example.com:80",
		"https://compute.googleapis.com/compute/v1/": "compute.googleapis.com:443/compute/v1",
		"https://[2001:DB8::0:1]:4646":               "[2001:db8::1]:4646",
		"":                                           "",
		"eu-central-1":                               "eu-central-1",
		"ssh://web":                                  "web:22",
		"https://autoscaling.eu-central-1.amazonaws.com": "autoscaling.eu-central-1.amazonaws.com:443",
	} {
		if got := ServiceAddress(given); got != want {
			t.Errorf("ServiceAddress(%q) = %q, want %q", given, got, want)
		}
	}
}
