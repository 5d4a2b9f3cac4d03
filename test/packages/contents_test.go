package packages

import (
	"bytes"
	"debug/elf"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/test/soak"
)

// everywhere lists the files in each package, without examples and documentation.
var everywhere = []string{
	"/etc/hpad/hpad.toml",
	"/etc/hpad/conf.d",
	"/usr/bin/hpad",
	"/usr/lib/systemd/system/hpad.service",
	"/usr/lib/sysusers.d/hpad.conf",
	"/usr/share/bash-completion/completions/hpad",
	"/usr/share/fish/vendor_completions.d/hpad.fish",
	"/usr/share/man/man1/hpad.1.gz",
	"/usr/share/man/man1/hpad-explain.1.gz",
	"/usr/share/man/man1/hpad-health.1.gz",
	"/usr/share/man/man5/hpad.toml.5.gz",
	"/usr/share/doc/hpad/README.md",
	"/usr/share/doc/hpad/changelog.gz",
	"/usr/share/doc/hpad/third-party-licenses.gz",
}

// fromCheckout returns the installed paths of examples and documentation.
func fromCheckout(t testing.TB) []string {
	t.Helper()
	var paths []string
	for pattern, to := range map[string]string{
		"docs/*.md":                "/usr/share/doc/hpad/docs",
		"docs/img/*":               "/usr/share/doc/hpad/docs/img",
		"configs/*.toml":           "/usr/share/doc/hpad/examples",
		"configs/*.yml":            "/usr/share/doc/hpad/examples",
		"configs/*.sh":             "/usr/share/doc/hpad/examples",
		"configs/fleets/*.sh":      "/usr/share/doc/hpad/examples/fleets",
		"configs/fleets/*.py":      "/usr/share/doc/hpad/examples/fleets",
		"docs/*.yaml":              "/usr/share/doc/hpad/docs",
		"docs/*.json":              "/usr/share/doc/hpad/docs",
		"systemd/drop-ins/*.conf":  "/usr/share/doc/hpad/examples/systemd",
		"systemd/polkit/*.rules":   "/usr/share/doc/hpad/examples/systemd",
		"configs/prometheus/*.yml": "/usr/share/hpad/prometheus",
		"configs/grafana/*.json":   "/usr/share/hpad/grafana",
	} {
		found, err := filepath.Glob("../../" + pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("glob %s = %q, %v", pattern, found, err)
		}
		for _, file := range found {
			if strings.HasSuffix(file, "_test.yml") { // used only by promtool
				continue
			}
			paths = append(paths, path.Join(to, filepath.Base(file)))
		}
	}
	return paths
}

// TestDebian checks the contents of the .deb for each architecture.
func TestDebian(t *testing.T) {
	t.Parallel()
	directory := all.in(t)
	want := slices.Concat(everywhere, fromCheckout(t),
		[]string{"/usr/share/doc/hpad/copyright", "/usr/share/doc/hpad/changelog.Debian.gz", "/usr/share/zsh/vendor-completions/_hpad"})
	line := regexp.MustCompile(`^(\S+) (\S+) +[0-9]+ \S+ \S+ \.(/\S*)$`)
	for architecture := range architectures {
		t.Run(architecture, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(directory, deb(oldVersion, architecture))
			var found []string
			for each := range strings.Lines(output(t, "dpkg-deb", "--contents", file)) {
				fields := line.FindStringSubmatch(strings.TrimSpace(each))
				if fields == nil {
					t.Fatalf("unexpected line of dpkg-deb: %q", each)
				}
				mode, owner, name := fields[1], fields[2], fields[3]
				if owner != "root/root" && owner != "0/0" {
					t.Errorf("%s is owned by %s, want root", name, owner)
				}
				wantMode := "-rw-r--r--"
				switch {
				case strings.HasSuffix(name, "/"):
					wantMode = "drwxr-xr-x"
				case name == "/usr/bin/hpad":
					wantMode = "-rwxr-xr-x"
				}
				if mode != wantMode {
					t.Errorf("%s has mode %s, want %s", name, mode, wantMode)
				}
				found = append(found, strings.TrimSuffix(name, "/"))
			}
			wantAll(t, found, want)
			if configured := output(t, "dpkg-deb", "--info", file, "conffiles"); configured != "/etc/hpad/hpad.toml\n" {
				t.Errorf("configuration files = %q, want only hpad.toml", configured)
			}
			root := t.TempDir()
			output(t, "dpkg-deb", "--extract", file, root)
			program(t, filepath.Join(root, "usr/bin/hpad"), architecture)
		})
	}
}

// TestRPM checks the contents of the .rpm for each architecture.
func TestRPM(t *testing.T) {
	t.Parallel()
	directory := all.in(t)
	want := slices.Concat(everywhere, fromCheckout(t),
		[]string{"/usr/share/licenses/hpad/LICENSE", "/usr/share/zsh/site-functions/_hpad"})
	for architecture := range architectures {
		t.Run(architecture, func(t *testing.T) {
			t.Parallel()
			file := rpm(oldVersion, architecture)
			listed := runTools(t, directory, `rpm -qp --qf '[%{FILENAMES} %{FILEMODES:perms} %{FILEFLAGS:fflags} %{FILEUSERNAME}:%{FILEGROUPNAME}\n]' `+file)
			var found []string
			for each := range strings.Lines(listed) {
				fields := strings.Fields(each)
				name, mode, owner := fields[0], fields[1], fields[len(fields)-1]
				flags := strings.Join(fields[2:len(fields)-1], "")
				if owner != "root:root" {
					t.Errorf("%s is owned by %s, want root", name, owner)
				}
				if name == "/usr/bin/hpad" && mode != "-rwxr-xr-x" {
					t.Errorf("%s has mode %s", name, mode)
				}
				if wantFlags := map[string]string{"/etc/hpad/hpad.toml": "cn", "/usr/share/licenses/hpad/LICENSE": "l"}[name]; flags != wantFlags {
					t.Errorf("%s has flags %q, want %q (c means configuration, n means that an upgrade does not replace it)", name, flags, wantFlags)
				}
				found = append(found, name)
			}
			wantAll(t, found, want)
			if tags := runTools(t, directory, `rpm -qp --qf '%{NAME} %{VERSION} %{ARCH} %{LICENSE}' `+file); tags != "hpad "+oldVersion+" "+architectures[architecture]+" Apache-2.0" {
				t.Errorf("got tags %q", tags)
			}
			runTools(t, directory, "rpm --checksig --nosignature "+file)
		})
	}
}

// TestArchive checks the contents of the .tar.gz for each architecture.
func TestArchive(t *testing.T) {
	t.Parallel()
	directory := all.in(t)
	for architecture := range architectures {
		t.Run(architecture, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			name := archive(oldVersion, architecture)
			output(t, "tar", "--directory", root, "--extract", "--file", filepath.Join(directory, name))
			root = filepath.Join(root, strings.TrimSuffix(name, ".tar.gz"))
			for _, file := range []string{
				"README.md", "LICENSE", "CHANGELOG.md", "third-party-licenses", "hpad.toml", "man/hpad.1.gz", "man/hpad.toml.5.gz",
				"completions/hpad.bash", "systemd/hpad.service", "systemd/hpad.sysusers", "systemd/drop-ins/docker.conf",
				"configs/hpad.toml", "configs/prometheus/alerts.yml", "docs/operations.md",
			} {
				if info, err := os.Stat(filepath.Join(root, file)); err != nil || info.Size() == 0 || info.Mode() != 0o644 {
					t.Errorf("%s: %v, %v", file, info, err)
				}
			}
			program(t, filepath.Join(root, "hpad"), architecture)
		})
	}
}

func wantAll(t testing.TB, found, want []string) {
	t.Helper()
	for _, name := range want {
		if !slices.Contains(found, name) {
			t.Errorf("missing file %s", name)
		}
	}
}

// program checks that a binary is static and built for an architecture. If this host can run it,
// program also checks its version.
func program(t testing.TB, name, architecture string) {
	t.Helper()
	file, err := elf.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	machine := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}[architecture]
	if file.Machine != machine {
		t.Errorf("got a program for %s, want %s", file.Machine, machine)
	}
	if slices.ContainsFunc(file.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }) {
		t.Error("the program is linked dynamically, want statically")
	}
	if architecture != runtime.GOARCH {
		return
	}
	if said := output(t, name, "version"); !strings.HasPrefix(said, "hpad "+oldVersion+" (go") {
		t.Errorf("hpad version printed %q, want version %s", said, oldVersion)
	}
}

// output runs a command and returns its standard output. The test fails if the command fails.
func output(t testing.TB, name string, args ...string) string {
	t.Helper()
	var errs bytes.Buffer
	command := exec.Command(name, args...)
	command.Stderr = &errs
	out, err := command.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, errs.String())
	}
	return string(out)
}

// TestSameBytes checks that a second build produces identical packages.
func TestSameBytes(t *testing.T) {
	t.Parallel()
	soak.Complete(t)
	first, second := all.in(t), again.in(t)
	for _, name := range []string{deb(oldVersion, runtime.GOARCH), rpm(oldVersion, runtime.GOARCH), archive(oldVersion, runtime.GOARCH), image(oldVersion, runtime.GOARCH)} {
		output(t, "cmp", filepath.Join(first, name), filepath.Join(second, name))
	}
}

// TestSums checks the list of checksums and the lists of modules.
func TestSums(t *testing.T) {
	t.Parallel()
	first := all.in(t)
	output(t, "sh", "-c", `cd "$1" && sha256sum --check --strict SHA256SUMS`, "sh", first)
	sums := output(t, "cat", filepath.Join(first, "SHA256SUMS"))
	for architecture := range architectures {
		name := "hpad-" + oldVersion + "-linux-" + architecture + ".modules.json"
		if built := output(t, "cat", filepath.Join(first, name)); !strings.Contains(sums, name) || !strings.Contains(built, `"go.etcd.io/bbolt"`) || !strings.Contains(built, `"Sum": "h1:`) {
			t.Errorf("%s lacks the modules of the program:\n%.500s", name, built)
		}
	}
}

// TestLintian checks the packages with lintian.
func TestLintian(t *testing.T) {
	t.Parallel()
	said := runTools(t, all.in(t), "lintian --allow-root --fail-on error --suppress-tags unknown-field "+deb(oldVersion, runtime.GOARCH))
	if strings.Contains(said, "W: ") || strings.Contains(said, "E: ") {
		t.Errorf("output of lintian:\n%s", said)
	}
}

// TestManual checks that man can display the pages. The lines are wide enough that no name is
// hyphenated.
func TestManual(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	output(t, "dpkg-deb", "--extract", filepath.Join(all.in(t), deb(oldVersion, runtime.GOARCH)), root)
	manual := filepath.Join(root, "usr/share/man")
	runTools(t, manual, "for page in man?/*; do mandoc -T lint -W error $page; done")
	for page, want := range map[string]string{
		"man1/hpad.1.gz":      "hpad-explain(1)",
		"man1/hpad-get.1.gz":  "--output",
		"man5/hpad.toml.5.gz": "downscale_stabilization",
	} {
		if text := runTools(t, manual, "mandoc -T ascii -O width=1000 "+page+" | sed 's/.\\x08//g'"); !strings.Contains(text, want) {
			t.Errorf("%s lacks %s:\n%s", page, want, text)
		}
	}
}

// TestConfig checks that the configurations of a new installation and the image are valid and
// empty.
func TestConfig(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"../../packaging/hpad.toml", "../../packaging/image/hpad.toml"} {
		c, err := config.Load(t.Context(), file)
		if err != nil {
			t.Fatal(err)
		}
		if len(c.Fleets) != 0 || len(c.Sources) != 0 || len(c.Autoscalers) != 0 {
			t.Errorf("%s has fleets, sources or autoscalers", file)
		}
		if c.Daemon.Socket != "/run/hpad/hpad.sock" || c.Daemon.StateDir != "/var/lib/hpad" {
			t.Errorf("%s has socket %s and state directory %s, want the paths of the unit", file, c.Daemon.Socket, c.Daemon.StateDir)
		}
	}
}
