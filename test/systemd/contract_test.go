package systemd

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/systemd"
	"github.com/hpad/hpad/targets/targettest"
	"github.com/hpad/hpad/test/systemd/systemdtest"
)

// TestContract runs the contract suite over real managers.
func TestContract(t *testing.T) {
	targettest.Run(t, targettest.Kind{Samples: true, New: newPlatform, Patience: patience})
}

// patience is how long hpad and systemd may take to do what they do within a second
// on an idle machine.
const patience = 60 * time.Second

// newPlatform is a manager with templates a@.service, b@.service and so on, whose
// instances were started by somebody else than hpad.
func newPlatform(t *testing.T, counts ...int32) *targettest.Platform {
	m := systemdtest.Start(t)
	control := t.TempDir()
	var store targettest.Store
	p := &targettest.Platform{Survive: true, Missing: ref("nobody@.service")}
	for i, count := range counts {
		name := string(rune('a' + i))
		m.Unit(name+"@.service", workerUnit("notify", control, ""))
		for index := range count {
			m.Control("start", fmt.Sprintf("%s@%d", name, index+1))
		}
		p.Refs = append(p.Refs, ref(name+"@.service"))
	}
	p.Open = func(t *testing.T) targettest.Fleet { return open(m, &store, nil) }
	p.Hang = func(_ *testing.T, on bool) {
		if on {
			m.Signal(syscall.SIGSTOP)
		} else {
			m.Signal(syscall.SIGCONT)
		}
	}
	p.SlowStop = func(t *testing.T, _ targets.Ref) { touch(t, control, "slow") }
	return p
}

func ref(template string) targets.Ref { return targets.Ref{Fleet: "vm", Name: template} }

// open answers a fleet of a manager.
func open(m *systemdtest.Manager, store targets.Store, configure func(c *systemd.Config)) *systemd.Fleet {
	c := &systemd.Config{Manager: "user", Address: m.Socket, ResourceInterval: time.Second}
	if configure != nil {
		configure(c)
	}
	c.SetDefaults()
	return systemd.New("vm", c, systemd.Options{Store: store})
}

// touch tells workers something.
func touch(t testing.TB, control, what string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(control, what), nil, 0o600); err != nil {
		t.Fatal(err)
	}
}
