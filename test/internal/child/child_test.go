package child

import (
	"errors"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestStop(t *testing.T) {
	t.Parallel()
	p, err := Start(exec.Command("sleep", "60"))
	if err != nil {
		t.Fatal(err)
	}
	if p.Ended() {
		t.Error("it ended at once")
	}
	if err := p.Stop(syscall.SIGTERM, 20*time.Second); err != nil {
		t.Errorf("Stop() = %v", err)
	}
	if !p.Ended() || p.Command.ProcessState.String() != "signal: terminated" {
		t.Errorf("it ended: %t, with %v", p.Ended(), p.Command.ProcessState)
	}
}

func TestStopKills(t *testing.T) {
	t.Parallel()
	command := exec.Command("sh", "-c", "trap '' TERM; echo deaf; while :; do sleep 0.1; done")
	output, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p, err := Start(command)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := output.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	if err := p.Stop(syscall.SIGTERM, time.Millisecond); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("Stop() of what ignores the signal = %v, want that it was killed", err)
	}
	if p.Command.ProcessState.String() != "signal: killed" {
		t.Errorf("it ended with %v", p.Command.ProcessState)
	}
}

func TestStartFails(t *testing.T) {
	t.Parallel()
	if _, err := Start(exec.Command("/nonexistent/program")); err == nil {
		t.Error("Start() of what is not there is no error")
	}
	refused := errors.New("refused")
	if _, err := StartIn(exec.Command("true"), func() error { return refused }); !errors.Is(err, refused) {
		t.Errorf("StartIn() = %v, want what enter says", err)
	}
}
