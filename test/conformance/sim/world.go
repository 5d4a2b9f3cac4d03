package sim

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sort"
	"sync"
	"time"
)

// World is a running scenario.
type World struct {
	Scenario *Scenario
	// Start is the instant 0 of the scenario.
	Start   time.Time
	Targets map[string]*Target
	Names   []string
}

// NewWorld returns the world of a scenario that starts at an instant.
func NewWorld(s *Scenario, start time.Time) *World {
	w := &World{Scenario: s, Start: start, Targets: map[string]*Target{}}
	for i := range s.Autoscalers {
		a := &s.Autoscalers[i]
		w.Targets[a.Name] = newTarget(w, i)
		w.Names = append(w.Names, a.Name)
	}
	return w
}

// Since returns an instant as a Dur.
func (w *World) Since(t time.Time) Dur { return Dur(t.Sub(w.Start)) }

// At returns the instant of a Dur.
func (w *World) At(d Dur) time.Time { return w.Start.Add(d.D()) }

// End returns the end of the scenario, which lies between two ticks.
func (w *World) End() Dur { return w.Scenario.End() }

// End returns the end of the scenario, which lies between two ticks.
func (s *Scenario) End() Dur { return s.Config.Period*Dur(s.Ticks) + s.Config.Period - Sec(0.2) }

// Begin waits for the next full hour, which is a tick of all sync periods.
func Begin() { time.Sleep(time.Until(time.Now().Truncate(time.Hour).Add(time.Hour))) }

// Errors of targets.
var (
	ErrUnread    = errors.New("the target cannot be read")
	ErrUnwritten = errors.New("the target cannot be written")
	ErrConflict  = errors.New("the target was changed")
	ErrMetric    = errors.New("the metric cannot be read")
	ErrHang      = errors.New("no response")
)

// Target is a scalable object and its metrics. Its methods may be called concurrently.
type Target struct {
	mu    sync.Mutex
	world *World
	a     *Autoscaler
	index int

	now      Dur
	next     int // of the events
	timers   []timer
	seq      int
	spec     Spec
	gone     bool
	replicas int32
	version  int
	made     int
	members  []*member
	samples  []Sample
	// reads and wrote are the counts that were read and written since the last Taken.
	reads   []read
	wrote   []int32
	wroteAt Dur
}

type read struct {
	at    Dur
	count int32
}

type timer struct {
	at  Dur
	seq int
	do  func()
}

type member struct {
	ord                    int
	born, started, ready   Dur
	failed, leaving, stops Dur // far if it does not happen
	phase                  string
	flips                  []flip
}

type flip struct {
	from, to Dur
	word     string
}

const far = Dur(math.MaxInt64)

// Instance is the state of an instance.
type Instance struct {
	ID         string
	Phase      string
	Ready      string // True, False, Unknown, or empty if it is not reported
	ReadySince Dur
	Started    Dur
	HasStarted bool
	Deleting   bool
}

// Sample is the usage of an instance by task and resource, in milli-units.
type Sample struct {
	ID     string
	At     Dur
	Window Dur
	Tasks  map[string]map[string]int64
}

func newTarget(w *World, index int) *Target {
	t := &Target{world: w, a: &w.Scenario.Autoscalers[index], index: index, now: -1}
	sort.SliceStable(t.a.Events, func(i, j int) bool { return t.a.Events[i].At < t.a.Events[j].At })
	t.spec = t.a.Spec
	t.replicas = t.a.Replicas
	for range t.replicas {
		m := t.make(0)
		if !t.a.Fleet.Fresh || t.chance(0.2, "old", m.ord) {
			m.born = -Sec(math.Floor(t.between(400, 5000, "age", m.ord)))
			m.started, m.ready = m.born, m.born+Sec(math.Floor(t.between(1, 300, "warm", m.ord)))
		}
	}
	if every := t.a.Fleet.Every; every > 0 {
		var sample func()
		at := t.a.Fleet.Offset - every
		sample = func() {
			t.publish(at)
			at += every
			t.after(at, sample)
		}
		// The samples of before the start exist at the start.
		t.publish(at)
		at += every
		t.after(at, sample)
	}
	return t
}

// draw returns a random number in [0, 1) that depends only on the seed, the target and the
// arguments.
func (t *Target) draw(what string, ns ...int) float64 {
	h := t.world.Scenario.Seed*0x9e3779b97f4a7c15 + uint64(t.index)
	mix := func(x uint64) {
		h ^= x + 0x9e3779b97f4a7c15 + h<<6 + h>>2
		h ^= h >> 30
		h *= 0xbf58476d1ce4e5b9
		h ^= h >> 27
		h *= 0x94d049bb133111eb
		h ^= h >> 31
	}
	for i := range len(what) {
		mix(uint64(what[i]))
	}
	for _, n := range ns {
		mix(uint64(int64(n)))
	}
	return float64(h>>11) / (1 << 53)
}

func (t *Target) between(lo, hi float64, what string, ns ...int) float64 {
	return lo + (hi-lo)*t.draw(what, ns...)
}
func (t *Target) chance(p float64, what string, ns ...int) bool { return t.draw(what, ns...) < p }

// span returns a random duration within bounds, in tenths of a second.
func (t *Target) span(b [2]Dur, what string, ord int) Dur {
	return Dur(t.between(float64(b[0]), float64(b[1])+1, what, ord)) / Dur(100*time.Millisecond) * Dur(100*time.Millisecond)
}

func (t *Target) after(at Dur, do func()) {
	t.seq++
	t.timers = append(t.timers, timer{at, t.seq, do})
}

// advance executes all events and timers up to and including an instant.
func (t *Target) advance(to Dur) {
	for {
		at, which := far, -1
		for i, timer := range t.timers {
			if timer.at < at || timer.at == at && timer.seq < t.timers[which].seq {
				at, which = timer.at, i
			}
		}
		event := t.next < len(t.a.Events) && t.a.Events[t.next].At <= at
		if event {
			at = t.a.Events[t.next].At
		}
		if at > to {
			break
		}
		t.now = max(t.now, at)
		if event {
			t.next++
			t.happen(&t.a.Events[t.next-1])
			continue
		}
		do := t.timers[which].do
		t.timers = slices.Delete(t.timers, which, which+1)
		do()
	}
	t.now = max(t.now, to)
	t.members = slices.DeleteFunc(t.members, func(m *member) bool { return m.stops <= t.now })
}

// make starts an instance.
func (t *Target) make(at Dur) *member {
	ord := t.made
	t.made++
	f := &t.a.Fleet
	m := &member{ord: ord, born: at, failed: far, leaving: far, stops: far}
	m.started = at + t.span(f.Pending, "pending", ord)
	m.ready = m.started + t.span(f.Startup, "startup", ord)
	t.members = append(t.members, m)
	return m
}

func (t *Target) id(m *member) string { return fmt.Sprintf("%s-%d", t.a.Name, m.ord) }

// live returns the instances that have not failed or been removed, oldest first.
func (t *Target) live() (live []*member) {
	for _, m := range t.members {
		if m.failed > t.now && m.leaving > t.now && m.stops > t.now {
			live = append(live, m)
		}
	}
	return live
}

// nth returns the n-th live instance modulo their number, or nil if there are no live instances.
func (t *Target) nth(n int32) *member {
	live := t.live()
	if len(live) == 0 {
		return nil
	}
	return live[int(n)%len(live)]
}

// settle starts or removes instances until their number is the desired count.
func (t *Target) settle() {
	live := t.live()
	for n := int32(len(live)); n < t.replicas; n++ {
		t.make(t.now)
	}
	for i := len(live) - 1; i >= int(max(t.replicas, 0)); i-- {
		m := live[i]
		if t.chance(0.3, "victim", m.ord, int(t.replicas)) { // not always the newest
			m = live[int(t.draw("which", m.ord)*float64(i+1))]
			live = slices.DeleteFunc(live, func(other *member) bool { return other == m })
			live = append(live, nil)
		}
		t.leave(m, t.now+t.span(t.a.Fleet.Stop, "stop", m.ord))
	}
}

func (t *Target) leave(m *member, at Dur) { m.leaving, m.stops = t.now, at }

func (t *Target) happen(e *Event) {
	switch e.Kind {
	case "set":
		t.replicas = e.N
		t.version++
		t.settle()
	case "spec", "create", "mirror":
		t.spec, t.gone = *e.Spec, false
	case "delete":
		t.gone = true
	case "unready":
		if m := t.nth(e.N); m != nil {
			m.flips = append(m.flips, flip{max(e.At, m.started), e.Until, e.How})
		}
	case "fail":
		if m := t.nth(e.N); m != nil {
			m.failed, m.stops, m.phase = t.now, e.Until, e.How
			t.after(t.now+t.span([2]Dur{0, Sec(5)}, "again", m.ord), t.settle)
		}
	case "remove":
		if m := t.nth(e.N); m != nil {
			t.leave(m, e.Until)
			t.after(t.now, t.settle)
		}
	}
}

// during returns the current event of a kind for n, or nil. A negative n matches all events.
func (t *Target) during(kind string, n int) *Event {
	for i := range t.a.Events {
		e := &t.a.Events[i]
		if e.At > t.now {
			return nil
		}
		if e.Kind == kind && t.now < e.Until && (n < 0 || int(e.N) == n) {
			return e
		}
	}
	return nil
}

// look returns the current state of an instance.
func (t *Target) look(m *member) Instance {
	in := Instance{ID: t.id(m), Phase: "Running", Deleting: m.leaving <= t.now}
	if t.now < m.started {
		in.Phase = "Pending"
		return in
	}
	in.Started, in.HasStarted = m.started, true
	if m.failed <= t.now {
		in.Phase, in.Ready, in.ReadySince = m.phase, "False", m.failed
		return in
	}
	if t.a.Fleet.Silent {
		return in
	}
	in.Ready, in.ReadySince = "True", m.ready
	if t.now < m.ready {
		in.Ready, in.ReadySince = "False", m.started
		return in
	}
	for _, f := range m.flips {
		switch {
		case f.to <= t.now && f.to > in.ReadySince:
			in.Ready, in.ReadySince = "True", f.to
		case f.from <= t.now && t.now < f.to:
			in.Ready, in.ReadySince = f.word, f.from
		}
	}
	return in
}

// serves reports whether an instance takes load.
func (t *Target) serves(m *member) bool {
	in := t.look(m)
	return in.Phase == "Running" && !in.Deleting && (in.Ready == "True" || in.Ready == "")
}

// Reading is the result of a read of a target.
type Reading struct {
	Replicas, Status int32
	Version          int
	Instances        []Instance
}

// Read reads the target at an instant. If fleet is true, no target of its fleet can be read.
func (t *Target) Read(at Dur) (r Reading, fleet bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.advance(at)
	fleet = t.world.Scenario.fleetOut(at, t.world.Scenario.FleetOf(t.index))
	read := t.replicas
	if fleet || t.during("unread", -1) != nil {
		read, err = -1, ErrUnread
	}
	t.reads = append(t.reads, newRead(at, read))
	if err != nil {
		return Reading{}, fleet, err
	}
	return Reading{Replicas: t.replicas, Status: int32(len(t.live())), Version: t.version, Instances: t.looks()}, false, nil
}

func newRead(at Dur, count int32) read { return read{at, count} }

// Instances returns the instances at an instant, even if reads fail.
func (t *Target) Instances(at Dur) []Instance {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.advance(at)
	return t.looks()
}

func (t *Target) looks() (all []Instance) {
	for _, m := range t.members {
		all = append(all, t.look(m))
	}
	return all
}

// Scale sets the count at an instant, if the version is current or negative. The write takes
// effect after the given delay.
func (t *Target) Scale(at Dur, n int32, version int, later Dur) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.advance(at)
	if t.during("unwritten", -1) != nil {
		return ErrUnwritten
	}
	for i := range t.a.Events {
		if e := &t.a.Events[i]; e.Kind == "refuse" && e.At == t.now && !e.done {
			e.done = true
			return ErrUnwritten
		}
	}
	for i := range t.a.Events {
		if e := &t.a.Events[i]; e.Kind == "interfere" && e.At <= t.now && !e.done {
			e.done = true
			t.replicas = e.N
			t.version++
			t.settle()
			break
		}
	}
	if version >= 0 && version != t.version {
		return ErrConflict
	}
	if e := t.during("lost", -1); e != nil && e.How != "made" {
		return ErrUnwritten
	}
	t.wrote, t.wroteAt = append(t.wrote, n), t.now
	if later > 0 {
		t.after(t.now+later, func() { t.set(n) })
		return nil
	}
	t.set(n)
	return nil
}

func (t *Target) set(n int32) {
	t.replicas = n
	t.version++
	// Instances start at whole tenths of a second, so that the duration of a conflict has
	// no effect.
	now := t.now
	t.now = now / Sec(0.1) * Sec(0.1)
	t.settle()
	t.now = now
}

// WroteAt returns the time of the last write.
func (t *Target) WroteAt() Dur {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.wroteAt
}

// Lost reports whether a write at an instant times out.
func (t *Target) Lost(at Dur) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.advance(at)
	return t.during("lost", -1) != nil
}

// slowest is the maximum duration of a read or a write, as a part of the sync period.
const slowest = 0.3

func (t *Target) slow(at Dur, what string, index int) Dur {
	s := t.world.Scenario
	if !s.Slow {
		return 0
	}
	tick := int(at / s.Config.Period)
	if t.chance(0.4, what+" quick", tick, index) {
		return 0
	}
	return Sec(min(slowest*s.Config.Period.D().Seconds(), 3) * t.draw(what+" slow", tick, index))
}

// SourceDelay returns the duration of a query that starts at an instant.
func (t *Target) SourceDelay(at Dur) Dur { return t.slow(at, "source", 0) }

// WriteDelay returns the duration of a write that starts in the sync period of an instant.
func (t *Target) WriteDelay(at Dur) Dur { return t.slow(at, "write", 0) }

// FleetDelay returns the duration of a read of a fleet that starts at an instant.
func (w *World) FleetDelay(at Dur, fleet int) Dur {
	return w.Targets[w.Names[0]].slow(at, "fleet", 1+fleet)
}

// Delay returns the time from the start of an evaluation to its write.
func (t *Target) Delay(at Dur) Dur {
	delay := t.world.FleetDelay(at, t.world.Scenario.FleetOf(t.index))
	for i, m := range t.Metrics(at) {
		if m.Sampled() || m.Shared {
			continue
		}
		delay = max(delay, t.SourceDelay(at))
		if t.Failure(at, i) == "hang" { // hpad waits until its timeout
			delay = max(delay, min(Dur(float64(t.world.Scenario.Config.Period)*2.0/3), Sec(30)))
		}
	}
	return delay + t.WriteDelay(at)
}

// Taken returns the first count that an evaluation at an instant read, the counts that were
// written since the last call, and the number of ready instances.
func (t *Target) Taken(at Dur) (read int32, wrote []int32, ready int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.advance(at)
	for _, m := range t.members {
		if t.serves(m) {
			ready++
		}
	}
	read = -2 // see Line.Read
	for _, r := range t.reads {
		if r.at >= at-Sec(0.002) { // hpad stores milliseconds
			read = r.count
			break
		}
	}
	wrote, t.wrote, t.reads = t.wrote, nil, nil
	return read, wrote, ready
}

// Spec returns the spec of the autoscaler at an instant, and false if it is deleted.
func (t *Target) Spec(at Dur) (Spec, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.advance(at)
	return t.spec, !t.gone
}

// fleetOut reports whether reads of a whole fleet fail at an instant.
func (s *Scenario) fleetOut(at Dur, fleet int) bool {
	for i := range s.Autoscalers {
		if s.FleetOf(i) != fleet {
			continue
		}
		for _, e := range s.Autoscalers[i].Events {
			if e.Kind == "unread" && e.How == "fleet" && e.At <= at && at < e.Until {
				return true
			}
		}
	}
	return false
}

// SamplesFail reports whether the fleet cannot return samples of the target at an instant.
func (t *Target) SamplesFail(at Dur) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.advance(at)
	for i, m := range t.specMetrics() {
		if e := t.during("metric", i); m.Sampled() && e != nil && e.How == "error" {
			return true
		}
	}
	return false
}
