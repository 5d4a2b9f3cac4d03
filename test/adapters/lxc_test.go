package adapters

import (
	"context"
	"fmt"
	"os"
	osexec "os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hpad/hpad/cmd/hpad/fleettest"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/adapter"
	"github.com/hpad/hpad/targets/exec"
	"github.com/hpad/hpad/test/internal/installed"
)

// template creates the stopped container "web" in a directory of its own, and returns the directory. All
// containers in it are removed at the end.
func template(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"lxc-start", "busybox", "python3"} {
		if _, err := installed.Program(name); err != nil {
			installed.Absent(t, name+" is missing: run test/install/lxc.sh")
		}
	}
	if os.Getuid() != 0 {
		installed.Absent(t, "LXC needs root")
	}
	dir, err := os.MkdirTemp("", "lxc")
	if err != nil {
		t.Fatal(err)
	}
	lxc := func(tool string, arguments ...string) (string, error) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		out, err := osexec.CommandContext(ctx, "lxc-"+tool, append([]string{"-P", dir}, arguments...)...).CombinedOutput()
		return string(out), err
	}
	t.Cleanup(func() {
		names, _ := lxc("ls", "-1")
		for _, name := range slices.Backward(strings.Fields(names)) { // the template last, because it sorts first
			if out, err := lxc("destroy", "-n", name, "-f"); err != nil {
				t.Errorf("destroy %s: %v: %s", name, err, out)
			}
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if out, err := lxc("create", "-n", "web", "-t", "busybox"); err != nil {
		t.Fatalf("lxc-create: %v: %s", err, out)
	}
	// Networks and AppArmor depend on the host.
	config := filepath.Join(dir, "web", "config")
	text, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	plain := regexp.MustCompile(`(?m)^lxc\.(net|apparmor)\..*\n|^.*/sys/kernel/security.*\n`).ReplaceAllString(string(text), "")
	if err := os.WriteFile(config, []byte(plain+"lxc.net.0.type = empty\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// lxcOptions returns options of fleet-test for a copy of lxc.py with changes.
func lxcOptions(t *testing.T, dir string, edits ...string) fleettest.Options {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(fleets, "lxc.py"))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(edits); i += 2 {
		if !strings.Contains(string(text), edits[i]) {
			t.Fatalf("lxc.py does not contain %q", edits[i])
		}
		text = []byte(strings.ReplaceAll(string(text), edits[i], edits[i+1]))
	}
	file := filepath.Join(t.TempDir(), "lxc.py")
	if err := os.WriteFile(file, text, 0o700); err != nil { //nolint:gosec // it must be executable
		t.Fatal(err)
	}
	config := &exec.Config{Command: []string{"python3", file}, Env: map[string]string{"LXC_PATH": dir, "LXC_STOP_SECONDS": "1"}}
	config.Timeout = 30 * time.Second
	config.SetDefaults()
	config.ResourceInterval = time.Second
	return fleettest.Options{
		Targets: []string{"web"}, Max: 6, Patience: 30 * time.Second, Interval: 20 * time.Millisecond,
		Build: func(name string, store targets.Store) (*adapter.Fleet, error) {
			fleet, err := config.Build(name, targets.Env{Store: store})
			if err != nil {
				return nil, err
			}
			return fleet.(*adapter.Fleet), nil
		},
	}
}

// outcome runs fleet-test and returns the names of the broken promises. An error to connect is one, too.
func outcome(t *testing.T, o fleettest.Options) (broken []string, all int) {
	t.Helper()
	runner, err := fleettest.Open(t.Context(), o)
	if err != nil {
		return []string{err.Error()}, 0
	}
	err = runner.Run(t.Context(), func(r fleettest.Result) {
		all++
		if r.Outcome != fleettest.Kept {
			broken = append(broken, fmt.Sprintf("%s: %q", r.Promise, r.Details))
		}
	})
	if err != nil {
		broken = append(broken, err.Error())
	}
	if err := runner.Close(); err != nil {
		t.Error(err)
	}
	return broken, all
}

// TestLXC runs fleet-test with lxc.py and real containers.
func TestLXC(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(fleets, "lxc.py"))
	if lines := strings.Count(string(text), "\n"); err != nil || lines > 150 {
		t.Errorf("lxc.py has %d lines, want at most 150: %v", lines, err)
	}
	if broken, all := outcome(t, lxcOptions(t, template(t))); len(broken) > 0 || all != 18 {
		t.Errorf("of %d promises, lxc.py breaks:\n%s", all, strings.Join(broken, "\n"))
	}
}

// TestFaultsOfLXC checks that fleet-test finds each of ten faults in lxc.py.
func TestFaultsOfLXC(t *testing.T) {
	dir := template(t)
	for _, fault := range []struct{ name, original, planted, only string }{
		{"ignores versions", `request.get("version", state["version"]) != state["version"]`, "False", "outdated version|external write"},
		{"changes versions at each read", `hashlib.sha256(" ".join(live).encode())`, `hashlib.sha256(str(time.time()).encode())`, "keeps instances"},
		{"lacks an instance", `"instances": instances}`, `"instances": instances[1:]}`, "scales up"},
		{"counts terminating instances", `{"count": len(live), "version"`, `{"count": len(instances), "version"`, "scales down|removes"},
		{"lists terminating instances as running", `"terminating": terminating}`, `"terminating": False}`, "scales down|removes"},
		{"changes ids at each read", `instance = {"id": name,`, `instance = {"id": name + str(time.time()),`, "keeps instances"},
		{"restarts the clock at each read", `time.gmtime(BOOT + ticks / os.sysconf("SC_CLK_TCK"))`, `time.gmtime(time.time() - 9e5 * (time.time() % 1))`, "keeps instances"},
		{"adds the count instead of setting it", `range(len(live), request["to"])`, `range(request["to"])`, "absolute|scales up"},
		{
			"scales down by replacing", `return remove([i["id"] for i in live[:len(live) - request["to"]]])`,
			`remove([i["id"] for i in live]), [create(request["target"]) for _ in range(request["to"])]; return`, "scales down",
		},
		{"returns 0 for an unknown target", `raise Refused(failed("not_found", f"there is no container {target}"))`, `return {"count": 0}`, "unknown target"},
		{"accepts without a change", "            create(request[\"target\"])", "            pass", "scales up"},
		{"removes other instances", `if i["id"] in request["instances"]]`, `if i["id"] not in request["instances"]][:1]`, "removes"},
		{"samples without a window", `"window": now - before[0]`, `"window": 0`, "^samples"},
		{"prints to the standard output", "\n    if request[\"call\"] == \"describe\":", "\n    print(request)\n    if request[\"call\"] == \"describe\":", "."},
	} {
		t.Run(fault.name, func(t *testing.T) {
			o := lxcOptions(t, dir, fault.original, fault.planted)
			o.Only, o.Patience = regexp.MustCompile(fault.only), 3*time.Second
			broken, all := outcome(t, o)
			if len(broken) == 0 || all == 0 && fault.only != "." {
				t.Error("fleet-test does not find the fault")
			}
			t.Logf("found: %s", strings.Join(broken, "\n"))
			healthy := lxcOptions(t, dir)
			healthy.Only = regexp.MustCompile(`^reads an unknown target$`) // also resets the count
			if broken, _ := outcome(t, healthy); len(broken) > 0 {
				t.Errorf("after the end of the fault: %s", strings.Join(broken, "\n"))
			}
		})
	}
}
