package faults

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/test/internal/program"
	"github.com/hpad/hpad/test/scale/sim"
	"github.com/hpad/hpad/test/soak"
	"github.com/hpad/hpad/test/wait"
)

// rate is the minimum time between two writes of an autoscaler whose behavior permits one instance
// per growSeconds. It allows for a delay of 5 s from a decision to its write on a loaded host.
const (
	growSeconds = 10
	rate        = (growSeconds - 5) * time.Second
)

// limited is the behavior of an autoscaler that may change its count by one instance per period.
const limited = `[autoscalers.%[1]s.behavior.scale_up]
policies = [{ type = "Instances", value = 1, period = "%[2]ds" }]
[autoscalers.%[1]s.behavior.scale_down]
stabilization_window = "0s"
policies = [{ type = "Instances", value = 1, period = "%[2]ds" }]
`

// remembered contains the fields of an autoscaler that must survive a restart.
type remembered struct {
	created, scaled time.Time
}

// remember reads the autoscalers. It returns nil if hpad is stopping.
func remember(p *program.Program, t testing.TB) map[string]remembered {
	all := map[string]remembered{}
	views, err := p.Client.Autoscalers(t.Context())
	if err != nil {
		return nil
	}
	for _, a := range views {
		all[a.Name] = remembered{a.Created, a.Status.LastScaleTime}
	}
	return all
}

// killed returns a world in which half of the targets grow and half shrink, by one instance per
// growSeconds. numbers contains the numbers of their jobs.
func killed(t testing.TB) (w *world, numbers []int) {
	t.Helper()
	w = newWorld(t, 60, 0)
	slow := newFront(t, w.nomad)
	slow.misbehave(onWrites(func(f *front, rw http.ResponseWriter, r *http.Request) {
		// The server detects a disconnected client only after it has read the body. Otherwise, it
		// would execute the write of a killed hpad after the next process has read the count.
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		pause(r, rand.N(300*time.Millisecond))
		f.honest.ServeHTTP(rw, r)
		_ = http.NewResponseController(rw).Flush()
		pause(r, rand.N(300*time.Millisecond))
	}))
	w.fleet("slow", slow)
	for n := range 20 {
		name, number := w.autoscaler("slow", "steady")
		text := w.config.String()
		text = text[:len(text)-len("[autoscalers."+name+".behavior.scale_down]\nstabilization_window = \"0s\"\n\n")]
		w.config.Reset()
		w.config.WriteString(text + fmt.Sprintf(limited, name, growSeconds))
		numbers = append(numbers, number)
		w.Ask(number, 1+19*(n%2))
	}
	return w, numbers
}

// pause waits for a duration, or until the client disconnects.
func pause(r *http.Request, wait time.Duration) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.Context().Done():
	}
}

// checkWrites checks that each write changed the count by one and that no two writes of an
// autoscaler are closer than rate.
func (w *world) checkWrites(t testing.TB, numbers []int) {
	t.Helper()
	total := 0
	for _, number := range numbers {
		writes := w.written(number)
		total += len(writes)
		for n, one := range writes {
			if difference := one.to - one.from; difference != 1 && difference != -1 {
				t.Errorf("%s was scaled from %d to %d, want a difference of one", sim.JobID(number), one.from, one.to)
			}
			if n > 0 && one.at.Sub(writes[n-1].at) < rate {
				t.Errorf("%s was scaled to %d and %s later to %d: two writes in %d s", sim.JobID(number), writes[n-1].to, one.at.Sub(writes[n-1].at), one.to, growSeconds)
			}
		}
	}
	if total < len(numbers)/2 {
		t.Errorf("got only %d writes, too few for this test", total)
	}
	t.Logf("%d writes", total)
}

// slowestCommit is the maximum duration of a commit in these tests. If hpad is killed after a write
// of the count but before it has stored the outcome, the next process uses the time when the
// write was planned. The planned write was committed after this time. The tests would still detect
// a lost write, because the writes of an autoscaler are about growSeconds apart.
const slowestCommit = 5 * time.Second

// wantRemembered checks that hpad still has the state that an earlier process reported.
func wantRemembered(t testing.TB, p *program.Program, before map[string]remembered) {
	t.Helper()
	now := remember(p, t)
	for name, was := range before {
		is, ok := now[name]
		if !ok || !is.created.Equal(was.created) || is.scaled.Before(was.scaled.Add(-slowestCommit)) {
			t.Errorf("%s: created %s and scaled %s before the restart, %s and %s after it", name, was.created, was.scaled, is.created, is.scaled)
		}
	}
}

// All loads are reversed after turnKilled kills in TestKill and after turnEnded restarts in
// TestTerm, so that the autoscalers continue to change their counts.
const (
	turnKilled = 150
	turnEnded  = 10
)

// turn reverses all loads for the n-th time, counted from 0.
func (w *world) turn(numbers []int, n int) {
	for i, number := range numbers {
		w.Ask(number, 1+19*((i+n+1)%2))
	}
}

// TestKill kills hpad under load at random times. hpad must not lose any state that it has
// reported, and must not repeat a write.
func TestKill(t *testing.T) {
	t.Parallel()
	w, numbers := killed(t)
	p := w.start()
	earlier := map[string]remembered{}
	random := rand.New(rand.NewPCG(1, 2))
	for n := range soak.Rounds(10, 1000) {
		until := time.NewTimer(time.Duration(random.Int64N(int64(2 * time.Second))))
		for alive := true; alive; {
			maps.Copy(earlier, remember(p, t))
			select {
			case <-until.C:
				alive = false
			case <-time.After(20 * time.Millisecond):
			}
		}
		p.Kill()
		if n%5 == 4 { // also kill it during startup
			p.Launch()
			pauseFor(time.Duration(random.Int64N(int64(300 * time.Millisecond))))
			p.Kill()
		}
		p.Start()
		wantRemembered(t, p, earlier)
		if t.Failed() {
			break
		}
		if n%turnKilled == turnKilled-1 {
			w.turn(numbers, n/turnKilled)
		}
	}
	w.checkWrites(t, numbers)
	p.Stop()
}

func pauseFor(d time.Duration) { <-time.After(d) }

// TestTerm sends SIGTERM during writes. hpad must exit with status 0, and the next process must
// complete the writes.
func TestTerm(t *testing.T) {
	t.Parallel()
	w, numbers := killed(t)
	p := w.start()
	for n := range soak.Rounds(3, 200) {
		if n%turnEnded == turnEnded-1 {
			w.turn(numbers, n/turnEnded)
		}
		w.mu.Lock()
		begun := len(w.writes)
		w.mu.Unlock()
		wait.For(t, patience, "active write", func() (string, bool) {
			w.mu.Lock()
			defer w.mu.Unlock()
			return fmt.Sprint(len(w.writes)), len(w.writes) > begun
		})
		earlier := remember(p, t)
		p.Stop()
		p.Start()
		wantRemembered(t, p, earlier)
	}
	w.checkWrites(t, numbers)
	p.Stop()
}

// TestReloads continuously reloads valid and invalid configurations, by signal and through the
// socket.
func TestReloads(t *testing.T) {
	t.Parallel()
	w, numbers := killed(t)
	for range 3 {
		name, _ := w.autoscaler("steady", "steady")
		w.steady = append(w.steady, name)
	}
	good := w.config.String()
	p := w.start()
	before := uses(t, p)
	earlier := remember(p, t)
	end := w.watch(t, p)
	for n := range soak.Rounds(100, 20_000) {
		switch n % 4 {
		case 0:
			p.Configure(good + "[fleets.broken]\nkind = \"nomade\"\n")
		case 2:
			p.Configure(good)
		}
		if n%2 == 0 {
			p.Signal(syscall.SIGHUP)
			continue
		}
		if status, body, err := p.Ask(http.MethodPost, "/-/reload"); err != nil || status != http.StatusOK && status != http.StatusInternalServerError {
			t.Fatalf("reload %d: %d %s, %v", n, status, body, err)
		}
	}
	p.Configure(good)
	if status, body, err := p.Ask(http.MethodPost, "/-/reload"); err != nil || status != http.StatusOK {
		t.Errorf("last reload = %d %s, %v", status, body, err)
	}
	p.Passes(w.steady[0], 3)
	end()
	wantRemembered(t, p, earlier)
	if p.Metric("hpad_config_reloads_total", "failure") == 0 || p.Metric("hpad_config_reloads_total", "success") == 0 {
		t.Error("/metrics contains no successful or no failed reloads")
	}
	w.checkWrites(t, numbers)
	wantNoLeak(t, p, before)
	p.Stop()
}

// TestTwo runs two hpads that have separate states and scale the same target. They must agree on
// the count, and one of them must report an external writer.
func TestTwo(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 20, 1)
	name, number := w.autoscaler("steady", "steady")
	first, second := w.start(), w.start()
	before := w.Truth(number).Count
	for _, count := range []int{before / 2, before + 1, before} {
		w.Ask(number, count)
		wait.For(t, patience, "count of both hpads", func() (string, bool) {
			now := w.Truth(number)
			return fmt.Sprintf("%+v", now), now.Count == count && !now.Deploying
		})
		first.Passes(name, 2)
		second.Passes(name, 2)
	}
	if writes := w.written(number); len(writes) != 3 {
		t.Errorf("got writes %+v for three loads, want one each", writes)
	}
	wait.For(t, patience, "report of an external writer", func() (string, bool) {
		events := append(first.View(name).Events, second.View(name).Events...)
		return fmt.Sprintf("%+v", events), slices.ContainsFunc(events, func(e api.Event) bool { return e.Reason == "ForeignWriter" })
	})
	first.Stop()
	second.Stop()
}
