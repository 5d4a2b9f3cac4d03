package docker

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/hpad/hpad/test/internal/child"
	"github.com/hpad/hpad/test/internal/parallel"
	"github.com/hpad/hpad/test/internal/program"
)

func TestMain(m *testing.M) {
	code := parallel.Run(m, 6)
	program.Clean()
	os.Exit(code)
}

// separateVariable is an environment variable with the name of the test that runs in its own process.
const separateVariable = "HPAD_SEPARATE_TEST"

// separate runs a test that checks for leaked goroutines in its own process, so that it can run in
// parallel with other tests. It returns true in that process, in which the test continues.
func separate(t *testing.T) bool {
	t.Helper()
	if os.Getenv(separateVariable) == t.Name() {
		return true
	}
	t.Parallel()
	var output bytes.Buffer
	command := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	command.Env = append(os.Environ(), separateVariable+"="+t.Name())
	command.Stdout, command.Stderr = &output, &output
	process, err := child.Start(command)
	if err != nil {
		t.Fatal(err)
	}
	<-process.Done
	switch {
	case !command.ProcessState.Success():
		t.Errorf("%s\n%s", command.ProcessState, output.String())
	case strings.Contains(output.String(), "--- SKIP: "+t.Name()+" "):
		t.Skip(output.String())
	default:
		t.Log(output.String())
	}
	return false
}
