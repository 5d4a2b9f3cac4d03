package systemd

import (
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	systemd "github.com/coreos/go-systemd/v22/dbus"
	godbus "github.com/godbus/dbus/v5"

	"github.com/hpad/hpad/targets/targettest"
)

// imitation is a manager in memory. It is safe for concurrent use.
type imitation struct {
	rival targettest.Rival

	mu    sync.Mutex
	run   string
	units map[string]*imitated
	// unitFiles are the states of unit files by name.
	unitFiles map[string]string
	// bad are units that the manager cannot make of their files.
	bad map[string]bool
	// limited are units that were started too often.
	limited map[string]bool
	// enabled are the units that would be started at boot.
	enabled map[string]bool
	// refuse returns why a call is refused; nil refuses none. Call is the name of
	// the method.
	refuse func(call, unit string) error
	// hangs reports whether calls are not answered.
	hangs bool
	// slow reports whether units take a moment to stop.
	slow  bool
	calls []string
	jobs  uint32
}

// imitated is one loaded unit.
type imitated struct {
	systemd.UnitStatus
	byHand     bool
	activation []byte
	properties map[string]any
	// ends is when a unit that is stopping has stopped.
	ends time.Time
}

// slowStop is how long a unit takes to stop that does so slowly.
const slowStop = 300 * time.Millisecond

func newImitation(files ...string) *imitation {
	m := &imitation{run: "boot-1", units: map[string]*imitated{}, unitFiles: map[string]string{}, bad: map[string]bool{}, limited: map[string]bool{}, enabled: map[string]bool{}}
	for _, file := range files {
		m.unitFiles[file] = "static"
	}
	return m
}

// call begins a call: it returns why it goes no further, with the lock held where
// it does.
func (m *imitation) call(ctx context.Context, name, unit string) error {
	if err := ctx.Err(); err != nil {
		return classed(err)
	}
	m.rival.Meet(name + " " + unit)
	m.mu.Lock()
	m.calls = append(m.calls, strings.TrimSpace(name+" "+unit))
	hangs, refuse := m.hangs, m.refuse
	if hangs {
		m.mu.Unlock()
		<-ctx.Done()
		return classed(ctx.Err())
	}
	if refuse != nil {
		if err := refuse(name, unit); err != nil {
			m.mu.Unlock()
			if name == "start" {
				err = refusalOf(err, unit)
			}
			return classed(err)
		}
	}
	m.settle()
	return nil
}

// settle lets the units be gone that have stopped.
func (m *imitation) settle() {
	now := time.Now()
	maps.DeleteFunc(m.units, func(_ string, u *imitated) bool {
		return u.ActiveState == "deactivating" && !now.Before(u.ends) || u.ActiveState == "inactive" && u.JobId == 0 && u.LoadState != "masked"
	})
}

func (m *imitation) list(ctx context.Context, patterns []string) (listing, error) {
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
	before, after, star := strings.Cut(strings.ReplaceAll(pattern, `\\`, `\`), "*")
	return strings.HasPrefix(name, before) && (star && strings.HasSuffix(name, after) || name == before)
}

func (m *imitation) files(ctx context.Context, patterns []string) ([]systemd.UnitFile, error) {
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

func (m *imitation) properties(ctx context.Context, unit string) (map[string]any, error) {
	if err := m.call(ctx, "properties", unit); err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	u := m.units[unit]
	if u == nil {
		state := "loaded"
		if m.bad[unit] {
			state = "bad-setting"
		}
		return map[string]any{"InvocationID": []byte{}, "ActiveEnterTimestamp": uint64(0), "LoadState": state}, nil
	}
	all := maps.Clone(u.properties)
	all["LoadState"] = u.LoadState
	all["InvocationID"] = u.activation
	return all, nil
}

func (m *imitation) property(ctx context.Context, unit, name string) (any, error) {
	all, err := m.properties(ctx, unit)
	return all[name], err
}

func (m *imitation) start(ctx context.Context, unit string) error {
	if err := m.call(ctx, "start", unit); err != nil {
		return err
	}
	defer m.mu.Unlock()
	return m.begin(unit, false)
}

// begin starts a unit, under the lock.
func (m *imitation) begin(unit string, byHand bool) error {
	u := m.units[unit]
	switch file := m.unitFiles[templateOf(unit).file()]; {
	case u != nil && u.LoadState == "masked", file == "masked", m.unitFiles[unit] == "masked":
		return refusalOf(godbus.Error{Name: "org.freedesktop.systemd1.UnitMasked", Body: []any{"Unit " + unit + " is masked."}}, unit)
	case file == "":
		return refusalOf(godbus.Error{Name: "org.freedesktop.systemd1.NoSuchUnit", Body: []any{"Unit " + unit + " not found."}}, unit)
	case m.bad[unit]:
		return refusalOf(godbus.Error{Name: "org.freedesktop.systemd1.BadUnitSetting", Body: []any{"Unit " + unit + " has a bad unit file setting."}}, unit)
	case u != nil && u.ActiveState == "active":
		return nil
	}
	m.units[unit] = &imitated{byHand: byHand}
	m.activate(unit)
	if m.limited[unit] {
		u := m.units[unit]
		u.ActiveState, u.SubState = "failed", "failed"
		u.properties["Result"], u.properties["StateChangeTimestamp"], u.properties["StartLimitIntervalUSec"] = "start-limit-hit", u.properties["ActiveEnterTimestamp"], uint64(time.Hour.Microseconds())
	}
	return nil
}

// activate makes a unit active, anew where it is.
func (m *imitation) activate(unit string) {
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

// unset is how a manager says that a number is not set.
const unset = ^uint64(0)

func (m *imitation) stop(ctx context.Context, unit string) error {
	if err := m.call(ctx, "stop", unit); err != nil {
		return err
	}
	defer m.mu.Unlock()
	m.end(unit)
	return nil
}

// end stops a unit, under the lock.
func (m *imitation) end(unit string) {
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

func (m *imitation) may(ctx context.Context, unit string) error {
	if err := m.call(ctx, "may", unit); err != nil {
		return err
	}
	m.mu.Unlock()
	return nil
}

func (m *imitation) reset(ctx context.Context, unit string) error {
	if err := m.call(ctx, "reset", unit); err != nil {
		return err
	}
	defer m.mu.Unlock()
	if m.units[unit] == nil {
		return classed(godbus.Error{Name: "org.freedesktop.systemd1.NoSuchUnit", Body: []any{"Unit " + unit + " not loaded."}})
	}
	delete(m.units, unit)
	return nil
}

func (m *imitation) enable(ctx context.Context, units []string) error {
	if err := m.call(ctx, "enable", strings.Join(units, " ")); err != nil {
		return err
	}
	defer m.mu.Unlock()
	for _, unit := range units {
		m.enabled[unit] = true
	}
	return nil
}

func (m *imitation) disable(ctx context.Context, units []string) error {
	if err := m.call(ctx, "disable", strings.Join(units, " ")); err != nil {
		return err
	}
	defer m.mu.Unlock()
	for _, unit := range units {
		if m.unitFiles[unit] != "masked" {
			delete(m.enabled, unit)
		}
	}
	return nil
}

func (m *imitation) close() {}

// byHand does something as a person would, with systemctl.
func (m *imitation) byHand(t testing.TB, do string, units ...string) {
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
		case "mask":
			m.unitFiles[unit] = "masked"
		case "unmask":
			delete(m.unitFiles, unit)
		default:
			t.Fatalf("nobody can %s", do)
		}
	}
}

// becomes changes what is listed of a unit, and its properties by name and value.
func (m *imitation) becomes(unit, active, sub string, properties ...any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.units[unit] == nil {
		m.units[unit] = &imitated{}
		m.activate(unit)
	}
	u := m.units[unit]
	u.ActiveState, u.SubState = active, sub
	for i := 0; i < len(properties); i += 2 {
		u.properties[properties[i].(string)] = properties[i+1]
	}
}

// restarted makes a unit start anew, as after a crash.
func (m *imitation) restarted(unit string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.activate(unit)
}

// queued queues a job of a unit; "" takes it away.
func (m *imitation) queued(unit, job string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.jobs++
	m.units[unit].JobId, m.units[unit].JobType = m.jobs, job
	if job == "" {
		m.units[unit].JobId = 0
	}
}

// reboots makes the manager begin anew with the units that are enabled.
func (m *imitation) reboots() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.run += "+1"
	clear(m.units)
	for unit := range m.enabled {
		_ = m.begin(unit, false) // what it refuses does not run
	}
}

// refuses sets why calls are refused.
func (m *imitation) refuses(why func(call, unit string) error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.refuse = why
}

// set changes anything else.
func (m *imitation) set(change func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change()
}

// active returns the units that are active, in order.
func (m *imitation) active() []string {
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

// called returns the calls so far that begin so, and forgets all.
func (m *imitation) called(prefix string) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	calls := slices.DeleteFunc(m.calls, func(call string) bool { return !strings.HasPrefix(call, prefix) })
	m.calls = nil
	return calls
}

// count returns how many calls of some names there were.
func (m *imitation) count(names ...string) int {
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
