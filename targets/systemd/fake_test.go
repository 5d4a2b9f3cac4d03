package systemd

import (
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	systemd "github.com/coreos/go-systemd/v22/dbus"
	godbus "github.com/godbus/dbus/v5"

	"github.com/hpad/hpad/targets/targettest"
)

// fakeManager is an in-memory manager. It is safe for concurrent use.
type fakeManager struct {
	rival targettest.Rival

	mu    sync.Mutex
	run   string
	units map[string]*fakeUnit
	// unitFiles maps unit files to their states.
	unitFiles map[string]string
	// limited is the set of units that have reached the start limit.
	limited map[string]bool
	// refuse returns the error of a method; nil means no error.
	refuse func(call, unit string) error
	// hangs makes calls wait for their deadline.
	hangs bool
	// slow makes units take slowStop to stop.
	slow  bool
	calls []string
	jobs  uint32
	// fileChanged is the time of the last change of every unit file, and reload reports whether the
	// manager has not loaded it.
	fileChanged time.Time
	reload      bool
}

type fakeUnit struct {
	systemd.UnitStatus
	external   bool
	activation []byte
	properties map[string]any
	// ends is the time when a pending stop completes.
	ends time.Time
}

const slowStop = 300 * time.Millisecond

func newFakeManager(files ...string) *fakeManager {
	m := &fakeManager{run: "boot-1", units: map[string]*fakeUnit{}, unitFiles: map[string]string{}, limited: map[string]bool{}}
	for _, file := range files {
		m.unitFiles[file] = "static"
	}
	return m
}

// call starts a call. If it returns no error, the lock is held.
func (m *fakeManager) call(ctx context.Context, name, unit string) error {
	if err := ctx.Err(); err != nil {
		return classify(err)
	}
	m.rival.Meet(name + " " + unit)
	m.mu.Lock()
	m.calls = append(m.calls, strings.TrimSpace(name+" "+unit))
	hangs, refuse := m.hangs, m.refuse
	if hangs {
		m.mu.Unlock()
		<-ctx.Done()
		return classify(ctx.Err())
	}
	if refuse != nil {
		if err := refuse(name, unit); err != nil {
			m.mu.Unlock()
			if name == "start" {
				err = refusalOf(err, unit)
			}
			return classify(err)
		}
	}
	m.settle()
	return nil
}

// settle removes stopped units.
func (m *fakeManager) settle() {
	now := time.Now()
	maps.DeleteFunc(m.units, func(_ string, u *fakeUnit) bool {
		return u.ActiveState == "deactivating" && !now.Before(u.ends) || u.ActiveState == "inactive" && u.JobId == 0
	})
}

func (m *fakeManager) list(ctx context.Context, patterns []string) (listing, error) {
	if err := m.call(ctx, "list", ""); err != nil {
		return listing{}, err
	}
	defer m.mu.Unlock()
	found := listing{run: m.run}
	for _, name := range slices.Sorted(maps.Keys(m.units)) {
		if slices.ContainsFunc(patterns, func(pattern string) bool { return matches(pattern, name) }) {
			found.units = append(found.units, m.units[name].UnitStatus)
		}
	}
	return found, nil
}

func matches(pattern, name string) bool {
	matched, err := path.Match(strings.ReplaceAll(pattern, `\`, `\\`), name) // systemd has no escapes in patterns
	return matched && err == nil
}

func (m *fakeManager) files(ctx context.Context, patterns []string) ([]systemd.UnitFile, error) {
	if err := m.call(ctx, "files", ""); err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	var found []systemd.UnitFile
	for _, name := range slices.Sorted(maps.Keys(m.unitFiles)) {
		if slices.ContainsFunc(patterns, func(pattern string) bool { return matches(pattern, name) }) {
			found = append(found, systemd.UnitFile{Path: "/etc/systemd/system/" + name, Type: m.unitFiles[name]})
		}
	}
	return found, nil
}

func (m *fakeManager) properties(ctx context.Context, unit string) (map[string]any, error) {
	if err := m.call(ctx, "properties", unit); err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	u := m.units[unit]
	if u == nil {
		return map[string]any{"InvocationID": []byte{}, "ActiveEnterTimestamp": uint64(0)}, nil
	}
	all := maps.Clone(u.properties)
	all["InvocationID"], all["NeedDaemonReload"] = u.activation, m.reload
	all["FragmentPath"], all["DropInPaths"] = "/etc/systemd/system/"+templateOf(unit).file(), []string{"/run/systemd/system.control/50-limit.conf"}
	return all, nil
}

func (m *fakeManager) property(ctx context.Context, unit, name string) (any, error) {
	all, err := m.properties(ctx, unit)
	return all[name], err
}

func (m *fakeManager) start(ctx context.Context, unit string) error {
	if err := m.call(ctx, "start", unit); err != nil {
		return err
	}
	defer m.mu.Unlock()
	return m.begin(unit, false)
}

// begin starts a unit. The caller must hold the lock.
func (m *fakeManager) begin(unit string, external bool) error {
	u := m.units[unit]
	switch file := m.unitFiles[templateOf(unit).file()]; {
	case file == "masked":
		return refusalOf(godbus.Error{Name: "org.freedesktop.systemd1.UnitMasked", Body: []any{"Unit " + unit + " is masked."}}, unit)
	case file == "":
		return refusalOf(godbus.Error{Name: "org.freedesktop.systemd1.NoSuchUnit", Body: []any{"Unit " + unit + " not found."}}, unit)
	case u != nil && u.ActiveState == "active":
		return nil
	}
	m.units[unit] = &fakeUnit{external: external}
	m.activate(unit)
	if m.limited[unit] {
		u := m.units[unit]
		u.ActiveState, u.SubState = "failed", "failed"
		u.properties["Result"] = "start-limit-hit"
	}
	return nil
}

// activate makes a unit active, with a new activation.
func (m *fakeManager) activate(unit string) {
	u := m.units[unit]
	u.UnitStatus = systemd.UnitStatus{Name: unit, LoadState: "loaded", ActiveState: "active", SubState: "running"}
	u.activation = []byte(rand.Text())
	now := uint64(time.Now().UnixMicro())
	u.properties = map[string]any{
		"InactiveExitTimestamp": now - 1000, "ActiveEnterTimestamp": now, "Result": "success", "NRestarts": uint32(0),
		"ControlGroup": "/system.slice/" + unit, "CPUUsageNSec": uint64(0), "MemoryCurrent": uint64(8 << 20),
		"CPUQuotaPerSecUSec": unset, "MemoryHigh": unset, "MemoryMax": unset,
	}
}

// unset is the value of unset numbers.
const unset = ^uint64(0)

func (m *fakeManager) stop(ctx context.Context, unit string) error {
	if err := m.call(ctx, "stop", unit); err != nil {
		return err
	}
	defer m.mu.Unlock()
	m.end(unit)
	return nil
}

// end stops a unit. The caller must hold the lock.
func (m *fakeManager) end(unit string) {
	u := m.units[unit]
	switch {
	case u == nil || u.ActiveState == "failed":
	case m.slow:
		m.jobs++
		u.ActiveState, u.SubState, u.JobId, u.JobType = "deactivating", "stop-sigterm", m.jobs, "stop"
		u.ends = time.Now().Add(slowStop)
	default:
		delete(m.units, unit)
	}
}

func (m *fakeManager) checkPermission(ctx context.Context, unit string) error {
	if err := m.call(ctx, "checkPermission", unit); err != nil {
		return err
	}
	m.mu.Unlock()
	return nil
}

func (m *fakeManager) reset(ctx context.Context, unit string) error {
	if err := m.call(ctx, "reset", unit); err != nil {
		return err
	}
	defer m.mu.Unlock()
	if m.units[unit] == nil {
		return classify(godbus.Error{Name: "org.freedesktop.systemd1.NoSuchUnit", Body: []any{"Unit " + unit + " not loaded."}})
	}
	delete(m.units, unit)
	return nil
}

func (m *fakeManager) close() {}

func (m *fakeManager) changed(path string) (time.Time, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if path != "/etc/systemd/system/worker@.service" {
		return time.Time{}, fmt.Errorf("stat %s: %w", path, os.ErrNotExist)
	}
	return m.fileChanged, nil
}

// systemctl runs a systemctl command.
func (m *fakeManager) systemctl(t testing.TB, do string, units ...string) {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, unit := range units {
		switch do {
		case "start":
			if err := m.begin(unit, true); err != nil {
				t.Fatal(err)
			}
		case "stop":
			m.end(unit)
		case "reset-failed":
			delete(m.units, unit)
		default:
			t.Fatalf("unknown command %s", do)
		}
	}
}

// becomes changes the state and properties of a unit.
func (m *fakeManager) becomes(unit, active, sub string, properties ...any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.units[unit] == nil {
		m.units[unit] = &fakeUnit{}
		m.activate(unit)
	}
	u := m.units[unit]
	u.ActiveState, u.SubState = active, sub
	for i := 0; i < len(properties); i += 2 {
		u.properties[properties[i].(string)] = properties[i+1]
	}
}

func (m *fakeManager) restarted(unit string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.activate(unit)
}

// queued queues a job for a unit.
func (m *fakeManager) queued(unit, job string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.jobs++
	m.units[unit].JobId, m.units[unit].JobType = m.jobs, job
}

// reboots starts a new run of the manager.
func (m *fakeManager) reboots() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.run += "+1"
	clear(m.units)
}

func (m *fakeManager) refuses(why func(call, unit string) error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.refuse = why
}

func (m *fakeManager) set(change func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change()
}

// active returns the active units, in order.
func (m *fakeManager) active() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.settle()
	var names []string
	for _, name := range slices.Sorted(maps.Keys(m.units)) {
		if m.units[name].ActiveState == "active" {
			names = append(names, name)
		}
	}
	return names
}

// called returns the calls that have a prefix, and deletes all calls.
func (m *fakeManager) called(prefix string) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	calls := slices.DeleteFunc(m.calls, func(call string) bool { return !strings.HasPrefix(call, prefix) })
	m.calls = nil
	return calls
}

// count returns the number of calls of some methods.
func (m *fakeManager) count(names ...string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := 0
	for _, call := range m.calls {
		name, _, _ := strings.Cut(call, " ")
		if slices.Contains(names, name) {
			n++
		}
	}
	return n
}

func workers(indexes ...int) []string {
	names := make([]string, len(indexes))
	for i, index := range indexes {
		names[i] = fmt.Sprintf("worker@%d.service", index)
	}
	return names
}
