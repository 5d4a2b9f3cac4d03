// Package install_test runs the scripts of test/install and their tools with programs of
// its own instead of those of the host.
package install_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// run runs a script without CI, with a cache of its own, and with the given programs and a
// few of the host. It returns the output and whether the script succeeded.
func run(t *testing.T, environment []string, programs map[string]string, script string, arguments ...string) (string, bool) {
	t.Helper()
	bin := t.TempDir()
	for name, text := range programs {
		program(t, filepath.Join(bin, name), text)
	}
	for name := range strings.FieldsSeq("bash cat chmod dirname env flock grep id ln mkdir mktemp mv rm sed setsid sh tail touch tr") {
		path, err := exec.LookPath(name)
		if err != nil {
			t.Fatal(err)
		}
		if programs[name] == "" {
			if err := os.Symlink(path, filepath.Join(bin, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	command := exec.CommandContext(t.Context(), script, arguments...)
	command.Env = append([]string{"PATH=" + bin, "HPAD_TEST_CACHE=" + t.TempDir(), "TMPDIR=" + t.TempDir()}, environment...)
	output, err := command.CombinedOutput()
	return string(output), err == nil
}

func program(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
}

// As root packages are installed also without CI. Without root the output names the
// packages and the command.
func TestPackages(t *testing.T) {
	for _, test := range []struct {
		user, want string
		ok         bool
	}{
		{"0", "apt-get -qq -o DPkg::Lock::Timeout=1800 install -y --no-install-recommends chromium npm, TMPDIR=\n", true},
		{"1000", "missing: chromium npm; run as root: apt-get install --no-install-recommends chromium npm\n", false},
	} {
		programs := map[string]string{"id": "echo " + test.user, "apt-get": `echo "apt-get $*, TMPDIR=$TMPDIR"`}
		if output, ok := run(t, nil, programs, "../tools/packages.sh", "chromium", "npm"); output != test.want || ok != test.ok {
			t.Errorf("user %s: %t, %s, want %t, %s", test.user, ok, output, test.ok, test.want)
		}
	}
}

// etcd is unpacked, which needs no root.
func TestEtcd(t *testing.T) {
	programs := map[string]string{
		"id":        "echo 1000; exit 0",
		"apt-cache": `echo "  Candidate: 3.4"`,
		"apt-get":   `case "$*" in *"download etcd-server=3.4") touch etcd.deb;; *) exit 1;; esac`,
		"dpkg-deb":  `mkdir -p root/usr/bin && printf '#!/bin/sh\necho "etcd $*, unpacked"\n' >root/usr/bin/etcd && chmod 755 root/usr/bin/etcd`,
	}
	if output, ok := run(t, nil, programs, "./etcd.sh"); !ok || output != "etcd --version, unpacked\n" {
		t.Errorf("etcd.sh: %t, %s", ok, output)
	}
}

// A script that fails is shown as SKIP with its output, and as FAIL with CI=true.
func TestEngines(t *testing.T) {
	dir := t.TempDir()
	program(t, filepath.Join(dir, "good.sh"), "echo v1")
	program(t, filepath.Join(dir, "absent.sh"), `printf 'some lines\nmissing: "x"\n' >&2; exit 1`)
	for environment, want := range map[string]string{"CI=": "SKIP", "CI=true": "FAIL"} {
		temporary := t.TempDir()
		output, ok := run(t, []string{environment, "TMPDIR=" + temporary}, nil, "../tools/engines.sh", filepath.Join(dir, "good.sh"), filepath.Join(dir, "absent.sh"))
		failed, err := os.ReadFile(filepath.Join(temporary, "failed"))
		if !ok || err != nil {
			t.Fatalf("%s: %t, %v, %s", environment, ok, err, output)
		}
		for _, line := range []string{"v1\n", "ok  \t" + dir + "/good.sh\t0s\n", "some lines\nmissing: \"x\"\n" + want + "\t" + dir + "/absent.sh\t0s\n"} {
			if !strings.Contains(output, line) {
				t.Errorf("%s: output %s, want %s", environment, output, line)
			}
		}
		if want := dir + "/absent.sh\tmissing: \"x\"\n"; string(failed) != want {
			t.Errorf("%s: failed has %q, want %q", environment, failed, want)
		}
	}
}
