package packages

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// highest is the maximum exposure level that wantSecure accepts.
const highest = 2.0

var exposure = regexp.MustCompile(`Overall exposure level for hpad\.service: ([0-9.]+)`)

// wantSecure checks the exposure level in the output of systemd-analyze.
func wantSecure(t testing.TB, output string) {
	t.Helper()
	found := exposure.FindStringSubmatch(output)
	if found == nil {
		t.Fatalf("no exposure level in the output of systemd-analyze:\n%s", output)
	}
	if level, err := strconv.ParseFloat(found[1], 64); err != nil || level > highest {
		t.Errorf("got exposure level %s, want at most %.1f:\n%s", found[1], highest, output)
	}
}

// unit returns a root directory that contains the unit, a drop-in and a placeholder for hpad.
func unit(t testing.TB, dropIn string) string {
	t.Helper()
	root := t.TempDir()
	write := func(name string, text []byte, mode os.FileMode) {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, text, mode); err != nil {
			t.Fatal(err)
		}
	}
	service, err := os.ReadFile("../../systemd/hpad.service")
	if err != nil {
		t.Fatal(err)
	}
	write("hpad.service", service, 0o644)
	write("bin/hpad", []byte("#!/bin/sh\n"), 0o755)
	if dropIn != "" {
		text, err := os.ReadFile(dropIn)
		if err != nil {
			t.Fatal(err)
		}
		write("hpad.service.d/"+filepath.Base(dropIn), text, 0o644)
	}
	return root
}

// verify checks the unit and its drop-ins with systemd.
const verify = `cp bin/hpad /usr/bin/hpad
SYSTEMD_UNIT_PATH=/mnt: systemd-analyze verify --man=no hpad.service`

func TestUnit(t *testing.T) {
	t.Parallel()
	root := unit(t, "")
	if output := runTools(t, root, verify); strings.Contains(output, "hpad") {
		t.Errorf("output of systemd-analyze verify:\n%s", output)
	}
	wantSecure(t, runTools(t, root, "systemd-analyze security --offline=true --no-pager ./hpad.service"))
}

// newerKeys lists keys in drop-ins that systemd 252 does not support.
var newerKeys = map[string][]string{
	"notify-reload.conf": {"notify-reload"},
	"backoff.conf":       {"RestartSteps", "RestartMaxDelaySec"},
}

// TestDropIns checks each drop-in together with the unit, and their exposure level.
func TestDropIns(t *testing.T) {
	t.Parallel()
	dropIns, err := filepath.Glob("../../systemd/drop-ins/*.conf")
	if err != nil || len(dropIns) < 8 {
		t.Fatalf("drop-ins: %q, %v; want at least 8", dropIns, err)
	}
	for _, dropIn := range dropIns {
		name := filepath.Base(dropIn)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := unit(t, dropIn)
			output := runTools(t, root, verify)
			for _, key := range newerKeys[name] {
				if !strings.Contains(output, key) {
					t.Errorf("systemd supports %s, want an unknown key:\n%s", key, output)
				}
			}
			if len(newerKeys[name]) > 0 {
				return
			}
			if strings.Contains(output, "hpad") {
				t.Errorf("output of systemd-analyze verify:\n%s", output)
			}
			wantSecure(t, runTools(t, root, "SYSTEMD_UNIT_PATH=/mnt: systemd-analyze security --offline=true --no-pager hpad.service"))
		})
	}
}
