package faults

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/test/internal/program"
	"github.com/hpad/hpad/test/scale/sim"
	"github.com/hpad/hpad/test/wait"
)

// period is the sync period in seconds.
const period = 2

var daemonTable = fmt.Sprintf("listen = \"\"\nsync_period = \"%ds\"\n", period)

// world is a simulated Nomad cluster with a Prometheus server. It records all scale requests.
type world struct {
	*sim.World
	t testing.TB
	// nomad and prometheus are handlers without faults.
	nomad, prometheus http.Handler
	config            strings.Builder
	// next is the number of the next job without an autoscaler. steady lists the autoscalers
	// without faults.
	next   int
	steady []string
	// files is the number of files that hpad opens some time after its start.
	files int

	mu     sync.Mutex
	writes []write
}

// write is a scale request that reached the cluster.
type write struct {
	job      int
	at       time.Time
	from, to int
	// done is true if the request changed the count.
	done bool
}

// newWorld returns a world with the given number of jobs and steady autoscalers.
func newWorld(t testing.TB, jobs, steady int) *world {
	t.Helper()
	w := &world{World: sim.New(sim.Options{Jobs: jobs}), t: t}
	go w.Run(t.Context())
	w.nomad, w.prometheus = w.recorded(w.Nomad()), w.Prometheus()
	fmt.Fprintf(&w.config, "[fleets.steady]\nkind = \"nomad\"\naddress = %q\n", newFront(t, w.nomad).url())
	fmt.Fprintf(&w.config, "[sources.steady]\nkind = \"prometheus\"\nurl = %q\n", newFront(t, w.prometheus).url())
	for range steady {
		name, _ := w.autoscaler("steady", "steady")
		w.steady = append(w.steady, name)
	}
	return w
}

// recorded forwards requests and records scale requests.
func (w *world) recorded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if !scales(r) {
			next.ServeHTTP(rw, r)
			return
		}
		text, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(text))
		var body struct{ Count *int }
		_ = json.Unmarshal(text, &body)
		number, err := strconv.Atoi(strings.TrimPrefix(strings.TrimSuffix(strings.TrimPrefix(r.URL.Path, "/v1/job/"), "/scale"), "shop-"))
		if err != nil || body.Count == nil {
			http.Error(rw, "faults: not a request to scale", http.StatusBadRequest)
			return
		}
		w.mu.Lock() // the new count must not be visible before its write is recorded
		defer w.mu.Unlock()
		before := w.Truth(number).Count
		next.ServeHTTP(rw, r)
		w.writes = append(w.writes, write{job: number, at: time.Now(), from: before, to: *body.Count, done: before != *body.Count && w.Truth(number).Count == *body.Count})
	})
}

// written returns the writes that changed the count of a job.
func (w *world) written(number int) (done []write) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, one := range w.writes {
		if one.job == number && one.done {
			done = append(done, one)
		}
	}
	return done
}

// lasting limits each call to a fleet or source to one second.
const lasting = "timeout = \"1s\"\n"

func (w *world) fleet(name string, f *front, more ...string) {
	fmt.Fprintf(&w.config, "[fleets.%s]\nkind = \"nomad\"\naddress = %q\n%s%s\n", name, f.url(), lasting, strings.Join(more, ""))
}

func (w *world) source(name string, f *front, more ...string) {
	fmt.Fprintf(&w.config, "[sources.%s]\nkind = \"prometheus\"\nurl = %q\n%s%s\n", name, f.url(), lasting, strings.Join(more, ""))
}

// autoscaler adds the configuration of an autoscaler for the next job that has at least four
// instances.
func (w *world) autoscaler(fleet, source string) (name string, number int) {
	return w.autoscalerOf(fleet, source, func(number int) string { return "query         = '" + sim.Load(number) + "'" })
}

// autoscalerOf adds an autoscaler as the method autoscaler does. query returns the line of its query for the
// number of its job.
func (w *world) autoscalerOf(fleet, source string, query func(number int) string) (name string, number int) {
	for w.Truth(w.next).Count < 4 {
		w.next++
	}
	number = w.next
	w.next++
	name = sim.JobID(number)
	fmt.Fprintf(&w.config, `[autoscalers.%[1]s]
target       = { fleet = %[2]q, job = %[1]q, group = "app" }
min_replicas = 1
max_replicas = 20
[[autoscalers.%[1]s.metrics]]
type          = "External"
name          = "load"
source        = %[3]q
%[4]s
average_value = "%[5]d"

[autoscalers.%[1]s.behavior.scale_down]
stabilization_window = "0s"

`, name, fleet, source, query(number), sim.PerInstance)
	return name, number
}

// start runs hpad and waits until every autoscaler has been evaluated.
func (w *world) start() *program.Program {
	w.t.Helper()
	p := program.Prepare(w.t, program.Options{Config: w.config.String(), Daemon: daemonTable})
	p.Start()
	return p
}

func view(t testing.TB, p *program.Program, name string) api.Autoscaler {
	t.Helper()
	return p.With(t).View(name)
}

// watch checks that the steady autoscalers are evaluated on time until end is called. Up to half of
// the checks may fail, because this process might be too busy to respond.
func (w *world) watch(t testing.TB, p *program.Program) (end func()) {
	t.Helper()
	done, ended := make(chan struct{}), make(chan struct{})
	var wrong []string
	const minimum = 20 // with fewer checks, the host was too busy for a valid result
	checks, begun := 0, time.Now()
	passes := w.passes(p)
	go func() {
		defer close(ended)
		ticker := time.NewTicker(500 * time.Millisecond)
		defer ticker.Stop()
		for {
			select {
			case <-done:
				return
			case <-ticker.C:
			}
			health, err := p.Client.Health(t.Context())
			if err != nil || !health.Healthy || slices.ContainsFunc(health.Unevaluated, func(problem api.Problem) bool {
				return slices.Contains(w.steady, strings.TrimPrefix(problem.Subject, "autoscaler "))
			}) {
				wrong = append(wrong, fmt.Sprintf("not healthy after %s: %+v, %v", time.Since(begun), health, err))
			}
			for _, name := range w.steady {
				checks++
				if a, err := api.Get[api.Autoscaler](t.Context(), p.Client, api.Path("autoscalers", name), nil); err != nil || a.Evaluation.Error != "" {
					wrong = append(wrong, fmt.Sprintf("%s after %s: %s, %v", name, time.Since(begun), a.Evaluation.Error, err))
				}
			}
		}
	}()
	return sync.OnceFunc(func() {
		t.Helper()
		close(done)
		<-ended
		if checks >= minimum && len(wrong) > checks/2 {
			t.Errorf("errors of the steady autoscalers in %d of %d checks, first: %s", len(wrong), checks, wrong[0])
		}
		ticks := time.Since(begun).Seconds() / period
		if got := (w.passes(p) - passes) / float64(len(w.steady)); got < 0.5*ticks-2 {
			t.Errorf("got %.1f passes of the steady autoscalers in %.1f periods", got, ticks)
		}
	})
}

// passes returns a number that increases by one for each period in which a steady autoscaler is
// evaluated on time.
func (w *world) passes(p *program.Program) (sum float64) {
	for _, name := range w.steady {
		a, err := api.Get[api.Autoscaler](w.t.Context(), p.Client, api.Path("autoscalers", name), nil)
		if err == nil {
			sum += float64(a.Evaluation.Last.Unix()/period) - float64(a.Evaluation.Late)
		}
	}
	return sum
}

// wantNoLeak waits until the numbers of goroutines and descriptors and the live heap are close to
// their earlier values.
func wantNoLeak(t testing.TB, p *program.Program, before program.Use) {
	t.Helper()
	const goroutines, descriptors, heap = 20, 20, 16 << 20
	wait.For(t, patience, "return of goroutines, descriptors and memory to the earlier values", func() (string, bool) {
		now, err := p.Use()
		return fmt.Sprintf("%+v, %v; before %+v", now, err, before), err == nil && now.Goroutines <= before.Goroutines+goroutines &&
			now.Descriptors <= before.Descriptors+descriptors && now.Heap <= before.Heap+heap
	})
}

func uses(t testing.TB, p *program.Program) program.Use {
	t.Helper()
	u, err := p.Use()
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// watched runs body while hpad runs and the steady autoscalers are watched. It then checks that
// hpad releases its resources.
func (w *world) watched(t *testing.T, body func(p *program.Program)) {
	t.Helper()
	p := w.start()
	p.Passes(w.steady[0], 2)
	before := uses(t, p)
	before.Descriptors += w.files
	end := w.watch(t, p)
	body(p)
	end()
	wantNoLeak(t, p, before)
	p.Stop()
}

// fault is a misbehavior with a name. why matches the error that hpad reports.
type fault struct {
	name string
	do   misbehavior
	why  string
}

type subtest struct {
	name string
	run  func(t *testing.T, p *program.Program)
}

// runFaults runs the tests in parallel.
func (w *world) runFaults(t *testing.T, tests []subtest) {
	t.Helper()
	w.watched(t, func(p *program.Program) {
		t.Run("faults", func(t *testing.T) {
			for _, test := range tests {
				t.Run(test.name, func(t *testing.T) {
					t.Parallel()
					test.run(t, p)
				})
			}
		})
	})
}

// victim is an autoscaler whose fleet or source has a fault.
type victim struct {
	*world
	*front
	name   string
	number int
}

func (v *victim) subtest(f fault) subtest {
	return subtest{f.name, func(t *testing.T, p *program.Program) {
		v.withstand(t, p, func() { v.misbehave(f.do) }, v.heal, f.why)
	}}
}

// awaitReported waits until /-/ready, /metrics, "hpad get" and "hpad explain" report the failure
// and its cause.
func (v *victim) awaitReported(t testing.TB, p *program.Program, why *regexp.Regexp) {
	t.Helper()
	p = p.With(t)
	problem := regexp.MustCompile(`(?m)^` + v.name + ` .*\S`)
	for where, output := range map[string]func() (string, bool){
		"/-/ready": func() (string, bool) {
			_, ready, err := p.Ask(http.MethodGet, "/-/ready")
			return fmt.Sprintf("%s, %v", ready, err), why.MatchString(unquoted(ready))
		},
		"/metrics": func() (string, bool) {
			failed := p.Metric("hpad_autoscaler_failing", v.name) + p.Metric("hpad_autoscaler_metric_failed", v.name) + p.Metric("hpad_autoscaler_held", v.name)
			return fmt.Sprint(failed), failed > 0
		},
		"hpad get": func() (string, bool) {
			list := p.Says("get")
			return list, problem.MatchString(list) && strings.Contains(list, "PROBLEM")
		},
		"hpad explain": func() (string, bool) {
			explained := strings.Join(strings.Fields(p.Says("explain", v.name)), " ")
			return explained, why.MatchString(explained)
		},
	} {
		wait.For(t, patience, "failure of "+v.name+" in "+where, output)
	}
}

// unquoted removes JSON escapes.
func unquoted(text string) string {
	return strings.NewReplacer(`\"`, `"`, `\u003c`, "<", `\u003e`, ">").Replace(text)
}

// withstand starts a fault with begin, halves the load, and ends the fault with end. During the
// fault, hpad must report an error that matches why, and must not change the count. Afterwards,
// hpad must follow the load. The load changes only after the first error, because a request that
// started before the fault could read the new load.
func (v *victim) withstand(t testing.TB, p *program.Program, begin, end func(), why string) {
	t.Helper()
	before := v.Truth(v.number).Count
	wait.For(t, patience, "evaluation of "+v.name+" without an error", func() (string, bool) {
		a := view(t, p, v.name)
		return a.Evaluation.Error, a.Evaluation.Error == ""
	})
	begin()
	matches := regexp.MustCompile(why)
	wait.For(t, patience, "error of "+v.name+" with "+why, func() (string, bool) {
		a := view(t, p, v.name)
		text := a.Evaluation.Error
		return fmt.Sprintf("%q of %+v", text, a.Evaluation), matches.MatchString(text)
	})
	v.Ask(v.number, before/2)
	p.With(t).Passes(v.name, 2)
	v.awaitReported(t, p, matches)
	if now := v.Truth(v.number).Count; now != before || len(v.written(v.number)) > 0 {
		t.Errorf("got %d instances, want %d: %+v", now, before, v.written(v.number))
	}
	end()
	v.recovers(t, p, before/2)
}

// recovers waits until the count equals want. It checks that hpad wrote once and reports no error.
func (v *victim) recovers(t testing.TB, p *program.Program, want int) {
	t.Helper()
	wait.For(t, patience, "recovery of "+v.name, func() (string, bool) {
		a := view(t, p, v.name)
		now := v.Truth(v.number)
		return fmt.Sprintf("%+v, %+v", now, a.Evaluation), now.Count == want && a.Evaluation.Error == ""
	})
	if writes := v.written(v.number); len(writes) != 1 {
		t.Errorf("got writes %+v, want one", writes)
	}
}
