package packages

import (
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/hpad/hpad/test/docker/dockertest"
	"github.com/hpad/hpad/test/wait"
)

// TestImage checks that the image runs without root, with a read-only file system except for the
// state, and with its health check.
func TestImage(t *testing.T) {
	t.Parallel()
	file := filepath.Join(all.in(t), image(oldVersion, runtime.GOARCH))
	e := dockertest.Start(t, dockertest.Options{})
	if said := e.CLI(t, "load", "--input", file); !strings.Contains(said, "hpad:"+oldVersion) {
		t.Errorf("docker load printed %q, want hpad:%s", said, oldVersion)
	}
	e.CLI(t, "run", "--detach", "--name", "hpad", "--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges",
		"--tmpfs", "/run/hpad:uid=65532,gid=65532,mode=0750", "--health-interval", "1s", "hpad:"+oldVersion)
	health := func(want string) {
		t.Helper()
		wait.For(t, patience, "health "+want, func() (string, bool) {
			said := strings.TrimSpace(e.CLI(t, "inspect", "--format", "{{.State.Status}} {{.State.Health.Status}}", "hpad"))
			return said + "\n" + e.CLI(t, "logs", "hpad"), said == "running "+want
		})
	}
	health("healthy")

	processes := strings.Split(strings.TrimSpace(e.CLI(t, "top", "hpad", "-o", "pid,uid,gid")), "\n")
	for _, process := range processes[1:] { // a health check may also be running
		if fields := strings.Fields(process); len(fields) != 3 || fields[1] != "65532" || fields[2] != "65532" {
			t.Errorf("got process %q, want user and group 65532", process)
		}
	}
	if len(processes) < 2 {
		t.Error("the container has no process")
	}
	if said := e.CLI(t, "exec", "hpad", "/usr/bin/hpad", "version"); !strings.HasPrefix(said, "hpad "+oldVersion+" ") {
		t.Errorf("hpad version printed %q", said)
	}
	e.CLI(t, "exec", "hpad", "/usr/bin/hpad", "get")
	address := strings.TrimSpace(e.CLI(t, "inspect", "--format", "{{.NetworkSettings.IPAddress}}", "hpad"))
	response, err := e.HTTP().Get(fmt.Sprintf("http://%s:4720/-/healthy", address))
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(response.Body)
	_ = response.Body.Close()
	if err != nil || response.StatusCode != http.StatusOK || !json.Valid(body) {
		t.Errorf("GET /-/healthy: %d %s, %v", response.StatusCode, body, err)
	}

	certificates := filepath.Join(t.TempDir(), "ca-certificates.crt")
	e.CLI(t, "cp", "hpad:/etc/ssl/certs/ca-certificates.crt", certificates)
	text, err := os.ReadFile(certificates)
	if err != nil {
		t.Fatal(err)
	}
	if count := strings.Count(string(text), "BEGIN CERTIFICATE"); count < 100 || !x509.NewCertPool().AppendCertsFromPEM(text) {
		t.Errorf("the image trusts %d authorities, want at least 100", count)
	}

	// A stopped process must be reported as unhealthy.
	e.CLI(t, "kill", "--signal", "STOP", "hpad")
	health("unhealthy")
	e.CLI(t, "kill", "--signal", "CONT", "hpad")
	health("healthy")
	e.CLI(t, "stop", "hpad")
	if said := strings.TrimSpace(e.CLI(t, "inspect", "--format", "{{.State.ExitCode}}", "hpad")); said != "0" {
		t.Errorf("got exit code %s after docker stop, want 0", said)
	}
}
