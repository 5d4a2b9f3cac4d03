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

// period is how often the worlds' autoscalers are evaluated, in seconds.
const period = 2

// daemonTable is what the [daemon] tables of worlds have.
var daemonTable = fmt.Sprintf("listen = \"\"\nsync_period = \"%ds\"\n", period)

// world is a cluster and its Prometheus with a model of what may happen to the cluster:
// each request to scale that it got.
type world struct {
	*sim.World
	t testing.TB
	// nomad and prometheus are the honest servers.
	nomad, prometheus http.Handler
	config            strings.Builder
	// next is the next job without an autoscaler, steady are the autoscalers that nothing
	// is to happen to.
	next   int
	steady []string

	mu     sync.Mutex
	writes []write
}

// write is a request to scale that reached the cluster.
type write struct {
	job      int
	at       time.Time
	from, to int
	// done means that it changed the count.
	done bool
}

// newWorld returns a world with a few autoscalers whose servers are honest.
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

// recorded passes requests on, and remembers those to scale.
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
		w.mu.Lock() // nobody sees the count without its write
		defer w.mu.Unlock()
		before := w.Truth(number).Count
		next.ServeHTTP(rw, r)
		w.writes = append(w.writes, write{job: number, at: time.Now(), from: before, to: *body.Count, done: before != *body.Count && w.Truth(number).Count == *body.Count})
	})
}

// written returns the writes to a job that changed its count.
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

// lasting is in the tables of fleets and sources: no call takes more than a second.
const lasting = "timeout = \"1s\"\n"

func (w *world) fleet(name string, f *front, more ...string) {
	fmt.Fprintf(&w.config, "[fleets.%s]\nkind = \"nomad\"\naddress = %q\n%s%s\n", name, f.url(), lasting, strings.Join(more, ""))
}

func (w *world) source(name string, f *front, more ...string) {
	fmt.Fprintf(&w.config, "[sources.%s]\nkind = \"prometheus\"\nurl = %q\n%s%s\n", name, f.url(), lasting, strings.Join(more, ""))
}

// autoscaler configures one of the next job that has several instances, and returns its
// name.
func (w *world) autoscaler(fleet, source string) (name string, number int) {
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
query         = '%[4]s'
average_value = "%[5]d"

[autoscalers.%[1]s.behavior.scale_down]
stabilization_window = "0s"

`, name, fleet, source, sim.Load(number), sim.PerInstance)
	return name, number
}

// start runs hpad over the world until all its autoscalers had a pass.
func (w *world) start() *program.Program {
	w.t.Helper()
	p := program.Prepare(w.t, program.Options{Config: w.config.String(), Daemon: daemonTable})
	p.Start()
	return p
}

// view returns an autoscaler.
func view(t testing.TB, p *program.Program, name string) api.Autoscaler {
	t.Helper()
	return p.With(t).View(name)
}

// watch looks at the steady autoscalers all the time, and returns what ends that: it
// wants them to have kept their period, without an error but where this process itself
// was too busy to answer for a moment.
func (w *world) watch(t testing.TB, p *program.Program) (end func()) {
	t.Helper()
	done, ended := make(chan struct{}), make(chan struct{})
	var wrong []string
	looks, begun := 0, time.Now()
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
				wrong = append(wrong, fmt.Sprintf("after %s hpad is not healthy: %+v, %v", time.Since(begun), health, err))
			}
			for _, name := range w.steady {
				looks++
				if a, err := p.Client.Autoscaler(t.Context(), name); err != nil || a.Evaluation.Error != "" {
					wrong = append(wrong, fmt.Sprintf("after %s %s: %s, %v", time.Since(begun), name, a.Evaluation.Error, err))
				}
			}
		}
	}()
	return sync.OnceFunc(func() {
		t.Helper()
		close(done)
		<-ended
		if len(wrong) > looks/10 {
			t.Errorf("autoscalers that have nothing to do with it were disturbed at %d of %d looks, first: %s", len(wrong), looks, wrong[0])
		}
		ticks := time.Since(begun).Seconds() / period
		if got := (w.passes(p) - passes) / float64(len(w.steady)); got < 0.75*ticks-2 {
			t.Errorf("they had %.1f passes each in %.1f periods", got, ticks)
		}
	})
}

// passes counts the passes of steady autoscalers by when the last ones were.
func (w *world) passes(p *program.Program) (sum float64) {
	for _, name := range w.steady {
		a, err := p.Client.Autoscaler(w.t.Context(), name)
		if err == nil {
			sum += float64(a.Evaluation.Last.Unix()/period) - float64(a.Evaluation.Late)
		}
	}
	return sum
}

// comesBack wants hpad to take no more than before, but for a little, at last.
func comesBack(t testing.TB, p *program.Program, before program.Use) {
	t.Helper()
	const goroutines, descriptors, resident = 20, 20, 96 << 20
	wait.For(t, patience, "return of goroutines, descriptors and memory to what they were", func() (string, bool) {
		now, err := p.Use()
		return fmt.Sprintf("%+v, %v; before %+v", now, err, before), err == nil && now.Goroutines <= before.Goroutines+goroutines &&
			now.Descriptors <= before.Descriptors+descriptors && now.Resident <= before.Resident+resident
	})
}

// uses returns what hpad takes at the moment.
func uses(t testing.TB, p *program.Program) program.Use {
	t.Helper()
	u, err := p.Use()
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// victim is an autoscaler that something happens to.
type victim struct {
	*world
	*front
	name   string
	number int
}

// told wants what people look at to say that the victim fails, and why.
func (v *victim) told(t testing.TB, p *program.Program, why *regexp.Regexp) {
	t.Helper()
	p = p.With(t)
	wait.For(t, patience, "failure of "+v.name+" in all that people look at", func() (string, bool) {
		_, ready, err := p.Ask(http.MethodGet, "/-/ready")
		var seen []string
		missing := func(what string, is bool) {
			if !is {
				seen = append(seen, what)
			}
		}
		missing(fmt.Sprintf("/-/ready, %v", err), why.MatchString(unquoted(ready)))
		missing("the metric", p.Metric("hpad_autoscaler_failing", v.name)+p.Metric("hpad_autoscaler_metric_failed", v.name)+p.Metric("hpad_autoscaler_held", v.name) > 0)
		missing("get", regexp.MustCompile(`(?m)^`+v.name+` .*\S`).MatchString(p.Says("get")) && strings.Contains(p.Says("get"), "PROBLEM"))
		explained := strings.Join(strings.Fields(p.Says("explain", v.name)), " ")
		missing("explain "+explained, why.MatchString(explained))
		return "missing in " + strings.Join(seen, "; "), len(seen) == 0
	})
}

// unquoted is JSON as its texts read.
func unquoted(text string) string {
	return strings.NewReplacer(`\"`, `"`, `\u003c`, "<", `\u003e`, ">").Replace(text)
}

// withstand lets something happen to the victim while its load asks for half of its
// instances: it is told, no instance is lost meanwhile, and once it is over the count
// follows.
func (v *victim) withstand(t testing.TB, p *program.Program, begin, end func(), why string) {
	t.Helper()
	before := v.Truth(v.number).Count
	if a := view(t, p, v.name); a.Evaluation.Error != "" {
		t.Fatalf("it fails already: %s", a.Evaluation.Error)
	}
	begin()
	v.Ask(v.number, before/2)
	matches := regexp.MustCompile(why)
	wait.For(t, patience, "error of "+v.name+" with "+why, func() (string, bool) {
		a := view(t, p, v.name)
		text := a.Evaluation.Error
		return fmt.Sprintf("%q of %+v", text, a.Evaluation), matches.MatchString(text)
	})
	v.told(t, p, matches)
	p.With(t).Passes(v.name, 2)
	if now := v.Truth(v.number).Count; now != before || len(v.written(v.number)) > 0 {
		t.Errorf("it has %d instances, and had %d: %+v", now, before, v.written(v.number))
	}
	end()
	v.recovers(t, p, before/2)
}

// recovers wants the count to follow the load again, by one write, and nothing to be
// told any more.
func (v *victim) recovers(t testing.TB, p *program.Program, want int) {
	t.Helper()
	wait.For(t, patience, "recovery of "+v.name, func() (string, bool) {
		a := view(t, p, v.name)
		now := v.Truth(v.number)
		return fmt.Sprintf("%+v, %+v", now, a.Evaluation), now.Count == want && a.Evaluation.Error == ""
	})
	if writes := v.written(v.number); len(writes) != 1 {
		t.Errorf("its count was written by %+v, want once", writes)
	}
}
