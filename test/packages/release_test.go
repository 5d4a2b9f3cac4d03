package packages

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/hpad/hpad/test/internal/installed"
	"github.com/hpad/hpad/test/soak"
)

// TestRelease creates a release from a tagged copy of the checkout, and verifies its signature and
// checksums.
func TestRelease(t *testing.T) {
	soak.Complete(t)
	if _, err := exec.LookPath("gpg"); err != nil {
		installed.Absent(t, "there is no gpg: run test/install/package-tools.sh")
	}
	checkout, keys := filepath.Join(t.TempDir(), "hpad"), shortDir(t)
	run := func(environment []string, name string, arguments ...string) (string, error) {
		command := exec.Command(name, arguments...)
		command.Dir = checkout
		command.Env = append(append(os.Environ(), "GNUPGHOME="+keys, "GIT_CONFIG_GLOBAL=/dev/null"), environment...)
		output, err := command.CombinedOutput()
		return string(output), err
	}
	do := func(name string, arguments ...string) string {
		t.Helper()
		output, err := run(nil, name, arguments...)
		if err != nil {
			t.Fatalf("%s %s: %v\n%s", name, strings.Join(arguments, " "), err, output)
		}
		return output
	}
	if output, err := exec.Command("git", "clone", "--quiet", "../..", checkout).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	release := []string{"ARCHITECTURES=" + runtime.GOARCH, "SIGNING_KEY=releases@hpad.test"}
	refused := func(why string) {
		t.Helper()
		if output, err := run(release, "packaging/release.sh"); err == nil || !strings.Contains(output, why) {
			t.Fatalf("release.sh: %v, want an error with %q:\n%s", err, why, output)
		}
	}
	refused("is not a release version: check out a version tag")
	commit := func() {
		t.Helper()
		do("git", "-c", "user.name=hpad", "-c", "user.email=hpad@hpad.test", "commit", "--quiet", "--all", "--allow-empty", "-m", "release")
		do("git", "tag", "--force", "v7.8.9")
	}
	commit()
	refused(`CHANGELOG.md has no section "## 7.8.9"`)
	do("sed", "-i", "s/^## Unreleased$/## 7.8.9/", "CHANGELOG.md")
	commit()
	do("gpg", "--batch", "--quiet", "--passphrase", "", "--quick-generate-key", "releases@hpad.test", "ed25519", "sign")
	if output, err := run(release, "packaging/release.sh"); err != nil {
		t.Fatalf("release.sh: %v\n%s", err, output)
	}
	refused("dist/ is not empty")

	do("gpg", "--batch", "--verify", "dist/SHA256SUMS.asc", "dist/SHA256SUMS")
	checked := do("sh", "-c", "cd dist && sha256sum --check --strict SHA256SUMS")
	modules := fmt.Sprintf("hpad-7.8.9-linux-%s.modules.json", runtime.GOARCH)
	for _, file := range []string{
		deb("7.8.9", runtime.GOARCH), rpm("7.8.9", runtime.GOARCH), archive("7.8.9", runtime.GOARCH), image("7.8.9", runtime.GOARCH), modules,
	} {
		if !strings.Contains(checked, file+": OK\n") {
			t.Errorf("sha256sum did not check %s:\n%s", file, checked)
		}
	}
	if text := do("cat", "dist/"+modules); !strings.Contains(text, "github.com/hashicorp/nomad/api") || !strings.Contains(text, "h1:") {
		t.Errorf("the modules have no checksums:\n%s", text)
	}
	do("sh", "-c", "echo >> dist/SHA256SUMS")
	if output, err := run(nil, "gpg", "--batch", "--verify", "dist/SHA256SUMS.asc", "dist/SHA256SUMS"); err == nil {
		t.Errorf("gpg accepts changed checksums:\n%s", output)
	}
}

// shortDir returns a directory with a short path, which gpg's sockets require.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "gpg")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = exec.Command("gpgconf", "--homedir", dir, "--kill", "all").Run() // stops gpg-agent
		_ = os.RemoveAll(dir)
	})
	return dir
}
