package e2e

import (
	"context"
	bits "encoding/binary"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/test/internal/gobuild"
	"github.com/hpad/hpad/test/soak"
)

// clockVariable names a file whose eight bytes are by how many seconds time.Now is
// ahead of the machine's wall clock, in a program that buildStepped built.
const clockVariable = "E2E_CLOCK"

// stepSource is added to package time. The monotonic clock stays what it is.
const stepSource = `package time

import (
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"
)

var stepFile = sync.OnceValue(func() *int64 {
	none := new(int64)
	path, ok := syscall.Getenv("` + clockVariable + `")
	if !ok {
		return none
	}
	fd, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return none
	}
	defer syscall.Close(fd)
	shared, err := syscall.Mmap(fd, 0, 8, syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		return none
	}
	return (*int64)(unsafe.Pointer(&shared[0]))
})

func stepped() int64 { return atomic.LoadInt64(stepFile()) }
`

// readsClock is where time.Now reads the clocks.
var readsClock = regexp.MustCompile(`(?m)^(func Now\(\) Time \{\n\tsec, nsec, mono := \w+\(\)\n)`)

// buildStepped builds hpad with a time.Now whose wall clock a file steps. The kinds
// of clouds are left out: everything is compiled anew.
var buildStepped = sync.OnceValues(func() (path string, err error) {
	dir := filepath.Dir(binary)
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return "", err
	}
	source := filepath.Join(strings.TrimSpace(string(root)), "src", "time")
	text, err := os.ReadFile(filepath.Join(source, "time.go"))
	if err != nil {
		return "", err
	}
	if !readsClock.Match(text) {
		return "", fmt.Errorf("time.Now of %s reads the clocks in another way than is known here", source)
	}
	replaced := map[string]string{}
	for name, content := range map[string][]byte{
		"time.go": readsClock.ReplaceAll(text, []byte("${1}\tsec += stepped()\n")),
		"step.go": []byte(stepSource),
	} {
		replaced[filepath.Join(source, name)] = filepath.Join(dir, name)
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			return "", err
		}
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replaced})
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(dir, "overlay.json"), overlay, 0o600); err != nil {
		return "", err
	}
	path = filepath.Join(dir, "hpad-stepped")
	return path, gobuild.Build(context.Background(), path, "../../cmd/hpad", "-overlay", filepath.Join(dir, "overlay.json"), "-tags", "noaws,noazure,nogce")
})

// stepper is the wall clock of a world.
type stepper struct {
	t      *testing.T
	shared []byte
	by     time.Duration
}

func (w *world) stepper(t *testing.T) *stepper {
	t.Helper()
	path := w.path("clock")
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	if err := file.Truncate(8); err != nil {
		t.Fatal(err)
	}
	shared, err := unix.Mmap(int(file.Fd()), 0, 8, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(shared) })
	w.environment = append(w.environment, clockVariable+"="+path)
	return &stepper{t: t, shared: shared}
}

// step steps the clock by whole seconds.
func (s *stepper) step(by time.Duration) {
	s.by += by
	bits.NativeEndian.PutUint64(s.shared, uint64(int64(s.by/time.Second)))
}

// steady returns a time of the stepped wall clock without the steps.
func (s *stepper) steady(wall time.Time) time.Time { return wall.Add(-s.by) }

// answering is a Prometheus server that has one value for each query, and knows
// for when each was queried last.
type answering struct {
	*httptest.Server
	mu     sync.Mutex
	values map[string]int
	asked  map[string]time.Time
}

func answerWith(t *testing.T, values map[string]int) *answering {
	a := &answering{values: values, asked: map[string]time.Time{}}
	a.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		query, text := r.FormValue("query"), r.FormValue("time")
		seconds, err := strconv.ParseFloat(text, 64)
		at := time.UnixMilli(int64(seconds * 1000))
		if err != nil {
			at, err = time.Parse(time.RFC3339Nano, text)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		a.asked[query] = at
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[%.3f,"%d"]}]}}`, float64(at.UnixMilli())/1000, a.values[query])
	}))
	t.Cleanup(a.Close)
	return a
}

// set sets a value, and returns for when the one before was queried last.
func (a *answering) set(query string, value int) time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.values[query] = value
	return a.asked[query]
}

func (a *answering) last(query string) time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.asked[query]
}

// clockConfig has one autoscaler that grows by one in 20 seconds, and one that
// shrinks 30 seconds after its load did.
func clockConfig(w *world, server string) string {
	const text = `[daemon]
listen      = %q
socket      = %q
state_dir   = %q
sync_period = "1s"

[fleets.local]
kind = "process"
[fleets.local.services.growing]
command = ["sleep", "3600"]
[fleets.local.services.shrinking]
command = ["sleep", "3600"]

[sources.prom]
kind = "prometheus"
url  = %q
`
	var config strings.Builder
	fmt.Fprintf(&config, text, w.listen, w.path("sock"), w.path("state"), server)
	for name, behavior := range map[string]string{
		"growing":   "scale_up]\npolicies = [{ type = \"Instances\", value = 1, period = \"20s\" }]",
		"shrinking": "scale_down]\nstabilization_window = \"30s\"",
	} {
		fmt.Fprintf(&config, `
[autoscalers.%[1]s]
target       = { fleet = "local", service = "%[1]s" }
min_replicas = 1
max_replicas = 80
[[autoscalers.%[1]s.metrics]]
type          = "External"
name          = "queue"
source        = "prom"
query         = "%[1]s"
average_value = "10"
[autoscalers.%[1]s.behavior.%[2]s
`, name, behavior)
	}
	return config.String()
}

// scaled waits until an autoscaler has so many replicas, and returns when it was
// scaled to them, without the steps of the clock.
func (h *hpad) scaled(s *stepper, name string, count int32) time.Time {
	h.w.t.Helper()
	var view api.Autoscaler
	eventually(h.w.t, fmt.Sprintf("%s is scaled to %d", name, count), 90*time.Second, func() (string, bool) {
		var err error
		view, err = h.client.Autoscaler(h.w.t.Context(), name)
		return fmt.Sprintf("%+v %v", view.Status, err), err == nil && view.Status.DesiredReplicas == count
	})
	return s.steady(view.Status.LastScaleTime)
}

// clockStep is a step of the wall clock of a running hpad, or of one that is killed
// before and started after it.
type clockStep struct {
	by   time.Duration
	kill bool
}

// randomSteps returns steps of seconds to more than a year, always the same for a seed.
func randomSteps(seed uint64, count int) (steps []clockStep) {
	random := rand.New(rand.NewPCG(seed, 1))
	for range count {
		by := []time.Duration{2 * time.Second, 40 * time.Second, time.Hour, 400 * 24 * time.Hour}[random.IntN(4)]
		by += time.Duration(random.Int64N(int64(by/time.Second))) * time.Second
		if random.IntN(2) == 0 {
			by = -by
		}
		steps = append(steps, clockStep{by: by, kill: random.IntN(2) == 0})
	}
	return steps
}

// TestSteppedClock steps the wall clock of hpad by an hour, with or without killing
// it, and in the end back: the rate and the window are as without that. The long form
// does so for ten minutes by random steps as well.
func TestSteppedClock(t *testing.T) {
	t.Parallel()
	stepped, err := buildStepped()
	if err != nil {
		t.Fatalf("build hpad with a clock that can be stepped: %v", err)
	}
	for _, by := range []time.Duration{-time.Hour, time.Hour} {
		for _, kill := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, killed %t", by, kill), func(t *testing.T) {
				t.Parallel()
				stepClock(t, stepped, []clockStep{{by: by, kill: kill}})
			})
		}
	}
	for seed := range uint64(soak.Rounds(0, 2)) {
		t.Run(fmt.Sprintf("at random %d", seed), func(t *testing.T) {
			t.Parallel()
			stepClock(t, stepped, randomSteps(seed, 15))
		})
	}
}

func stepClock(t *testing.T, stepped string, steps []clockStep) {
	w := newWorld(t)
	w.binary = stepped
	clock := w.stepper(t)
	server := answerWith(t, map[string]int{"growing": 800, "shrinking": 40})
	w.write(clockConfig(w, server.URL))
	h := w.start()
	counted := map[string]int{} // the steps that this hpad is to count
	onTime := func() {
		t.Helper()
		before := server.last("growing")
		eventually(t, "rounds go on, and ask for the wall clock's time", 20*time.Second, func() (string, bool) {
			asked := server.last("growing")
			behind := time.Now().Add(clock.by).Sub(asked)
			return fmt.Sprintf("asked for %s, %s ago, before for %s", asked, behind, before), !asked.Equal(before) && behind.Abs() < 10*time.Second
		})
	}
	grown := int32(1)
	for _, step := range steps {
		t.Logf("%+v", step)
		first := h.scaled(clock, "growing", grown+1)
		server.set("shrinking", 40)
		h.scaled(clock, "shrinking", 4)
		high := clock.steady(server.set("shrinking", 10))

		if step.kill {
			h.kill()
			clear(counted)
		}
		clock.step(step.by)
		if step.kill {
			h = w.start()
		}
		onTime()
		second := h.scaled(clock, "growing", grown+2)
		if gap := second.Sub(first); gap < 20*time.Second {
			t.Errorf("grew twice within %s, want 20s", gap)
		}
		low := h.scaled(clock, "shrinking", 1)
		if gap := low.Sub(high); gap < 30*time.Second {
			t.Errorf("shrank %s after its load did, want 30s", gap)
		}
		h.wantStepTold(step.by, counted)
		grown = h.viewOf("growing").Status.DesiredReplicas
	}
	back := -clock.by
	clock.step(back)
	onTime()
	h.wantStepTold(back, counted)
	h.end()
}

// wantStepTold wants a step to be shown by events, in the log and by /metrics, which has
// counted those before it.
func (h *hpad) wantStepTold(by time.Duration, counted map[string]int) {
	h.w.t.Helper()
	direction := "forward"
	if by < 0 {
		direction = "back"
	}
	counted[direction]++
	told := fmt.Sprintf("the wall clock was stepped %s by %s", direction, by.Abs())
	for _, name := range []string{"growing", "shrinking"} {
		eventually(h.w.t, "it is told", 10*time.Second, func() (string, bool) {
			said := h.w.hpad("describe", name).out
			return said, strings.Contains(said, "ClockStepped") && strings.Contains(said, told)
		})
	}
	h.awaitSaid(fmt.Sprintf(`"direction":%q`, direction), "the wall clock was stepped; windows and rates go on without it")
	text := h.metrics()
	for _, direction := range []string{"forward", "back"} {
		if line := fmt.Sprintf("hpad_clock_steps_total{direction=%q} %d\n", direction, counted[direction]); !strings.Contains(text, line) {
			h.w.t.Errorf("/metrics does not have %s:\n%s", line, text)
		}
	}
}
