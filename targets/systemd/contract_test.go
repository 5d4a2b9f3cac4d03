package systemd

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	godbus "github.com/godbus/dbus/v5"

	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/probe"
	"github.com/hpad/hpad/targets/targettest"
)

// readyServer responds to probes with the readiness of instances, by unit name.
type readyServer struct {
	mu      sync.Mutex
	unready map[string]bool
}

func (r *readyServer) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.unready[strings.TrimPrefix(request.URL.Path, "/")] {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
}

func (r *readyServer) set(unit string, ready bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unready[unit] = !ready
}

func TestContract(t *testing.T) {
	targettest.Run(t, targettest.Kind{Of: &Kind, Samples: true, New: newPlatform})
}

func newPlatform(t *testing.T, counts ...int32) *targettest.Platform {
	ready := &readyServer{unready: map[string]bool{}}
	server := httptest.NewServer(ready)
	t.Cleanup(server.Close)
	m := newFakeManager()
	config := &Config{ResourceInterval: 200 * time.Millisecond, Templates: map[string]Template{}}
	var store targettest.Store
	var current *Fleet
	p := &targettest.Platform{Missing: ref("nobody@.service"), Survive: true}
	for i, count := range counts {
		name := template(string(rune('a'+i)) + `\x2d.app`) // as systemd-escape writes it
		m.unitFiles[name.file()] = "static"
		config.Templates[name.file()] = Template{ReadyProbe: readyProbe{
			HTTP: fmt.Sprintf("%s/%s@%%i.service", server.URL, name), Interval: 100 * time.Millisecond, Limits: probe.Limits{FailureThreshold: 1},
		}}
		for index := range count {
			m.systemctl(t, "start", name.unit(index+1))
		}
		p.Refs = append(p.Refs, ref(name.file()))
	}
	config.SetDefaults()
	p.Open = func(*testing.T) targets.Fleet {
		current = newFleet("vm", config, targets.Env{Store: &store}, m)
		return current
	}
	p.SetCount = func(t *testing.T, ref targets.Ref, n int32) { setCount(t, m, ref, int(n)) }
	p.Rival = func(_ *testing.T, _ targets.Ref, act func()) { m.rival.Before(act, "start ", "stop ") }
	p.SetReady = func(_ *testing.T, _ targets.Ref, id string, on bool) { ready.set(id, on) }
	p.Unreachable = func(_ *testing.T, on bool) { m.refuses(refusal(on, godbus.ErrClosed)) }
	p.Throttle = func(_ *testing.T, on bool) {
		m.refuses(refusal(on, godbus.Error{Name: "org.freedesktop.DBus.Error.LimitsExceeded", Body: []any{"too many connections"}}))
	}
	p.Hang = func(_ *testing.T, on bool) { m.set(func() { m.hangs = on }) }
	p.Reach = func(_ *testing.T, _ targets.Ref, count int32) {
		left := count - 1 // the template itself exists
		m.refuses(func(call, _ string) error {
			if call != "start" {
				return nil
			}
			if left--; left < 0 {
				return godbus.Error{Name: "org.freedesktop.DBus.Error.NoMemory", Body: []any{"not enough memory for another unit"}}
			}
			return nil
		})
	}
	p.SlowStop = func(*testing.T, targets.Ref) { m.set(func() { m.slow = true }) }
	p.Writes = func() int { return m.count("start", "stop", "reset") }
	p.Sampling = func() bool { return current.sampler.Running() }
	return p
}

// refusal returns a function that rejects all calls with the error why, or nil if on is false.
func refusal(on bool, why error) func(call, unit string) error {
	if !on {
		return nil
	}
	return func(_, _ string) error { return why }
}

// setCount starts or stops instances as an operator would.
func setCount(t *testing.T, m *fakeManager, ref targets.Ref, n int) {
	name, _ := parseTemplate(ref.Name)
	count := 0
	var foreign []string
	for index := range int32(100) {
		m.mu.Lock()
		u := m.units[name.unit(index)]
		if u != nil && u.ActiveState == "active" {
			count++
			if u.external {
				foreign = append(foreign, u.Name)
			}
		}
		m.mu.Unlock()
	}
	for index := int32(1); count < n; index++ {
		m.mu.Lock()
		taken := m.units[name.unit(index)] != nil
		m.mu.Unlock()
		if !taken {
			m.systemctl(t, "start", name.unit(index))
			count++
		}
	}
	for ; count > n; count-- {
		m.systemctl(t, "stop", foreign[len(foreign)-1])
		foreign = foreign[:len(foreign)-1]
	}
}

func ref(name string) targets.Ref { return targets.Ref{Fleet: "vm", Name: name} }
