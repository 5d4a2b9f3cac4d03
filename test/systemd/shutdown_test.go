package systemd

import (
	"errors"
	"testing"
	"time"

	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/systemd"
	"github.com/hpad/hpad/targets/targettest"
	"github.com/hpad/hpad/test/systemd/systemdtest"
)

// slowWorker is a template whose instance 3 takes a long time to stop.
const slowWorker = `[Service]
ExecStart=/bin/sleep infinity
ExecStop=/bin/sh -c 'test %i != 3 || sleep 3'
`

// TestLogout checks that hpad does not mistake a manager that stops all units for a manual
// scale-down.
func TestLogout(t *testing.T) {
	t.Parallel()
	m := systemdtest.Start(t)
	m.Unit(t, "slow@.service", slowWorker)
	m.Control(t, "start", "slow@1", "slow@2", "slow@3")
	f := open(m, &targettest.Store{}, nil)
	defer func() { _ = f.Close() }()
	if err := f.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	ref := targets.Ref{Fleet: "vm", Name: "slow@.service"}
	wantThree := func() error {
		t.Helper()
		readings, err := f.Snapshot(t.Context(), []targets.Ref{ref})
		if reading := readings[ref]; err == nil && (reading.Err != nil || reading.SpecReplicas != 3) {
			t.Errorf("spec = %d, %v, want 3", reading.SpecReplicas, reading.Err)
		}
		return err
	}
	if err := wantThree(); err != nil {
		t.Fatal(err)
	}
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		m.Stop()
	}()
	shuttingDown := 0
	for ticker := time.NewTicker(20 * time.Millisecond); ; {
		select {
		case <-ticker.C:
			if err := wantThree(); targets.Reason(err) == systemd.ShuttingDown {
				shuttingDown++
			}
			continue
		case <-stopped:
		}
		ticker.Stop()
		break
	}
	if shuttingDown == 0 {
		t.Errorf("no reading with reason %s during the shutdown", systemd.ShuttingDown)
	}
	if err := wantThree(); !errors.Is(err, targets.ErrTransient) {
		t.Errorf("Snapshot() without a manager = %v, want ErrTransient", err)
	}
	m.Restart()
	if err := wantThree(); err != nil {
		t.Error(err)
	}
	awaitActive(t, m, "slow", 1, 2, 3)
}
