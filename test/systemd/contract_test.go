package systemd

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/systemd"
	"github.com/hpad/hpad/targets/targettest"
	"github.com/hpad/hpad/test/internal/world"
	"github.com/hpad/hpad/test/systemd/systemdtest"
)

// TestContract runs the contract suite on a real manager.
func TestContract(t *testing.T) {
	m := systemdtest.Start(t)
	trials := 0
	targettest.Run(t, targettest.Kind{Samples: true, Patience: patience, New: func(t *testing.T, counts ...int32) *targettest.Platform {
		trials++
		return newPlatform(t, m, fmt.Sprintf(`trial%d\x20`, trials), counts...)
	}})
}

// patience is the maximum time that the tests wait for hpad or systemd.
const patience = world.Patience

// newPlatform creates templates named prefix+"a", prefix+"b" and so on. A prefix may be escaped. Their instances were
// started by an external writer, not by hpad.
func newPlatform(t *testing.T, m *systemdtest.Manager, prefix string, counts ...int32) *targettest.Platform {
	control := t.TempDir()
	var store targettest.Store
	p := &targettest.Platform{Survive: true, Missing: ref("missing@.service")}
	for i, count := range counts {
		name := prefix + string(rune('a'+i))
		m.Unit(t, name+"@.service", workerUnit("notify", control, ""))
		for index := range count {
			m.Control(t, "start", fmt.Sprintf("%s@%d", name, index+1))
		}
		p.Refs = append(p.Refs, ref(name+"@.service"))
	}
	t.Cleanup(func() { m.Control(t, "stop", strings.ReplaceAll(prefix, `\`, "?")+"*") })
	p.Open = func(*testing.T) targets.Fleet { return open(m, &store, nil) }
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

// open opens a fleet that uses a manager.
func open(m *systemdtest.Manager, store targets.Store, configure func(c *systemd.Config)) *systemd.Fleet {
	c := &systemd.Config{Manager: "user", Address: m.Socket, ResourceInterval: time.Second}
	if configure != nil {
		configure(c)
	}
	c.SetDefaults()
	return systemd.New("vm", c, targets.Env{Store: store})
}

// touch creates a control file for the workers.
func touch(t testing.TB, control, what string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(control, what), nil, 0o600); err != nil {
		t.Fatal(err)
	}
}
