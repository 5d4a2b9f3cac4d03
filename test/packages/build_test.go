package packages

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// The versions before and after the upgrade.
const (
	oldVersion = "0.9.0"
	newVersion = "0.10.0-rc.1"
)

// architectures maps Go's names of architectures to those of RPM.
var architectures = map[string]string{"amd64": "x86_64", "arm64": "aarch64"}

// scratch is a directory shared by all tests.
var scratch string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	var err error
	if scratch, err = os.MkdirTemp("", "hpad-packages-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	return m.Run()
}

// script runs a script of packaging/ with environment variables.
func script(name string, environment ...string) error {
	command := exec.Command("../../packaging/" + name)
	command.Env = append(os.Environ(), environment...)
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(command.Args, " "), err, output)
	}
	return nil
}

// build builds packages once and returns their directory.
type build func() (string, error)

func built(name, version, architectures, formats string) build {
	return sync.OnceValues(func() (string, error) {
		directory := filepath.Join(scratch, name)
		return directory, script("build.sh", "DIST="+directory, "VERSION="+version,
			"ARCHITECTURES="+architectures, "FORMATS="+formats)
	})
}

var (
	// all contains the packages and images for all architectures.
	all = built("all", oldVersion, "amd64 arm64", "deb rpm tar.gz image.tar")
	// again contains the packages and the image for this architecture, from a second build.
	again = built("again", oldVersion, runtime.GOARCH, "deb rpm tar.gz image.tar")
	// newer contains the package to upgrade to.
	newer = built("newer", newVersion, runtime.GOARCH, "deb")
)

// in returns the directory that contains the results of a build.
func (b build) in(t testing.TB) string {
	t.Helper()
	directory, err := b()
	if err != nil {
		t.Fatal(err)
	}
	return directory
}

// deb, rpm, archive and image return the file names of packages.
func deb(version, architecture string) string {
	return fmt.Sprintf("hpad_%s-1_%s.deb", strings.Replace(version, "-", "~", 1), architecture)
}

func rpm(version, architecture string) string {
	return fmt.Sprintf("hpad-%s-1.%s.rpm", strings.Replace(version, "-", "~", 1), architectures[architecture])
}

func archive(version, architecture string) string {
	return fmt.Sprintf("hpad-%s-linux-%s.tar.gz", version, architecture)
}

func image(version, architecture string) string {
	return fmt.Sprintf("hpad-%s-linux-%s.image.tar", version, architecture)
}
