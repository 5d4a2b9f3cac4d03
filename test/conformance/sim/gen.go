package sim

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sort"
)

// gen generates a scenario.
type gen struct {
	*rand.Rand
	s *Scenario
}

func (g *gen) n(lo, hi int) int         { return lo + g.IntN(hi-lo+1) }
func (g *gen) p(prob float64) bool      { return g.Float64() < prob }
func (g *gen) f(lo, hi float64) float64 { return lo + (hi-lo)*g.Float64() }

func pick[T any](g *gen, xs ...T) T { return xs[g.IntN(len(xs))] }

// Generate returns scenario i of a seed for a version of Kubernetes, of one family, or of a random family if only is empty.
// The random families are listed first:
//
//	plain       instances fail, are deleted and lose readiness
//	mixed       all events of faults, edits, zero, rates and flapping
//	faults      metrics fail, samples are missing or old, targets cannot be read or written
//	edits       specs and counts change, evaluations between ticks
//	zero        scaling to zero and back
//	rates       scaling policies
//	flapping    changing load and readiness
//	restarts    hpad restarts, is killed and reloads, and upstream keeps running
//	reboot      the host of hpad reboots
//	refit       hpad reloads with new fleets and sources
//	killmid     hpad is killed before or after a commit
//	down        hpad does not run for up to 8 sync periods, and upstream does not evaluate
//	full        commits fail
//	clock       the wall clock is stepped forward
//	clockback   the wall clock is stepped back
//	recreate    an autoscaler is deleted and created again
//	retarget    an autoscaler moves to another target and back
//	settings    the global settings change
//	periods     autoscalers have their own sync periods
//	labels      labels of the targets define the autoscalers
//	slow, hang  reads, queries and writes take up to 30 % of a period, or never return
//	conflict    an external writer changes the count between read and write
//
// The following families run only if only names them:
//
//	ha            members of a cluster crash, leave and return
//	requick       an autoscaler is deleted and created again within a sync period
//	limits        with 1.38: values, requests and policies near the limits of 32 and 64 bits
//	lost, unmade  writes time out and take effect, or not
//	crowd, long   60 autoscalers; 1,500 ticks
func Generate(kubernetes string, seed uint64, i int, only string) *Scenario {
	g := &gen{Rand: rand.New(rand.NewPCG(seed, uint64(i))), s: &Scenario{Kubernetes: kubernetes}}
	family := only
	switch {
	case only != "":
	case kubernetes != "" && g.p(0.2): // in 1.37, the results depend on the processor
		family = "limits"
	default:
		family = pick(g, "plain", "mixed", "mixed", "mixed", "edits", "faults", "zero", "restarts", "restarts", "down", "clock", "recreate", "flapping", "rates", "slow", "slow", "hang", "settings", "full", "reboot", "refit", "retarget", "periods", "conflict", "killmid", "killmid", "labels")
	}
	g.s.Name = fmt.Sprintf("%s%s/%d-%d", family, kubernetes, seed, i)
	g.s.Seed = g.Uint64() >> 12
	g.scenario(family)
	return g.s
}

func (g *gen) scenario(family string) {
	s := g.s
	s.Strict, s.Prometheus = g.p(0.5), g.p(0.2)
	if g.p(0.4) && family != "retarget" {
		s.Fleets = g.n(2, 3)
	}
	s.Ticks = g.n(30, 90)
	if g.p(0.1) {
		s.Ticks = g.n(100, 300)
	}
	s.Config = Config{Tolerance: 0.1, CPUInit: Sec(300), ReadyDelay: Sec(30), Downscale: Sec(300), Period: Sec(15), ScaleToZero: true}
	if family != "plain" {
		if g.p(0.3) {
			s.Config.Period = Sec(pick(g, 5.0, 10, 20, 30, 60))
		}
		if g.p(0.25) {
			s.Config.Tolerance = pick(g, 0, 0.01, 0.05, 0.2, 0.3)
		}
		if g.p(0.25) {
			s.Config.CPUInit = Sec(pick(g, 0.0, 30, 60, 120, 600))
		}
		if g.p(0.2) {
			s.Config.ReadyDelay = Sec(pick(g, 0.0, 10, 60, 120))
		}
		if g.p(0.3) {
			s.Config.Downscale = Sec(pick(g, 0.0, 30, 45, 60, 90, 600))
		}
		if g.p(0.05) && family != "zero" {
			s.Config.ScaleToZero = false
		}
	}
	count := g.n(1, 4)
	switch family {
	case "conflict": // upstream evaluates no other autoscaler while it waits
		count = 1
	case "crowd":
		count, s.Ticks = g.n(30, 60), g.n(10, 30)
	case "long":
		count, s.Ticks = g.n(1, 2), g.n(600, 1500)
	}
	for i := range count {
		s.Autoscalers = append(s.Autoscalers, g.autoscaler(family, i))
	}
	if family == "retarget" {
		for i := range count {
			g.retarget(i)
		}
	}
	switch family {
	case "restarts":
		for range g.n(1, 8) {
			s.Acts = append(s.Acts, Act{At: g.between(), Kind: pick(g, "restart", "kill", "restart", "kill", "reload", "look")})
		}
	case "mixed", "edits", "faults", "zero", "rates", "recreate", "flapping":
		for range g.n(0, 3) {
			s.Acts = append(s.Acts, Act{At: g.between(), Kind: pick(g, "restart", "kill", "reload", "look")})
		}
	case "retarget":
		for range g.n(0, 3) {
			s.Acts = append(s.Acts, Act{At: g.between(), Kind: pick(g, "restart", "kill", "reload", "refit")})
		}
	case "refit", "reboot", "crowd", "long", "periods":
		for range g.n(1, 5) {
			kinds := map[string][]string{"refit": {"refit", "refit", "reload", "kill"}, "reboot": {"reboot", "reboot", "restart"}}[family]
			if kinds == nil {
				kinds = []string{"restart", "kill", "reload", "refit", "reboot", "look"}
			}
			s.Acts = append(s.Acts, Act{At: g.between(), Kind: pick(g, kinds...)})
		}
	case "ha":
		s.Members, s.Led, s.Prometheus, s.Relax = g.n(2, 3), true, false, nil
		at := Dur(0)
		for range g.n(1, 4) {
			from := max(g.late(), at+s.Config.Period)
			if from%s.Config.Period == 0 { // not during an evaluation
				from += s.Config.Period / 10 * 9
			}
			act := Act{At: from, Kind: pick(g, "crash", "leave"), N: g.n(0, s.Members-1), Until: g.late()}
			if act.Until > act.At && act.Until < s.Config.Period*Dur(s.Ticks) {
				s.Acts, at = append(s.Acts, act), act.Until
			}
		}
	case "labels":
		s.Labels, s.Led, s.Relax = true, true, []string{"events"} // there are two evaluations at a tick
		for range g.n(0, 5) {
			s.Acts = append(s.Acts, Act{At: g.between(), Kind: pick(g, "restart", "kill", "reload", "refit")})
		}
	case "hang":
		s.Slow, s.Prometheus, s.Relax = true, false, []string{"ready"}
	case "settings":
		for range g.n(1, 3) {
			next := s.Config
			switch g.n(0, 3) {
			case 0:
				next.Tolerance = pick(g, 0, 0.01, 0.05, 0.2)
			case 1:
				next.Downscale = Sec(pick(g, 0.0, 30, 60, 120, 600))
			case 2:
				next.CPUInit = Sec(pick(g, 0.0, 30, 120))
			case 3:
				next.ReadyDelay = Sec(pick(g, 0.0, 10, 60))
			}
			s.Acts = append(s.Acts, Act{At: g.between(), Kind: "settings", Config: &next})
		}
		for range g.n(0, 2) {
			s.Acts = append(s.Acts, Act{At: g.between(), Kind: pick(g, "restart", "kill", "reload")})
		}
	case "full":
		s.Relax = []string{"stored"}
		at := g.between()
		until := at + Sec(math.Round(g.f(5, 300)))
		s.Acts = append(s.Acts, Act{At: at, Kind: "full", Until: until})
		for range g.n(0, 4) {
			if at := g.between(); at > until+2*s.Config.Period || at < s.Acts[0].At {
				s.Acts = append(s.Acts, Act{At: at, Kind: pick(g, "restart", "kill")})
			}
		}
	case "down":
		at := Dur(0)
		for range g.n(1, 3) {
			from := g.off(max(g.between(), at+s.Config.Period))
			act := Act{At: from, Kind: pick(g, "down", "dead"), Until: g.off(from + Dur(g.f(0.2, 8)*float64(s.Config.Period)))}
			if act.Until <= act.At || act.Until >= s.Config.Period*Dur(s.Ticks) || act.At >= s.Config.Period*Dur(s.Ticks) {
				continue
			}
			at = act.Until
			s.Acts = append(s.Acts, act)
		}
	case "slow":
		s.Slow, s.Prometheus, s.Relax = true, false, []string{"ready"}
		for range g.n(0, 3) {
			s.Acts = append(s.Acts, Act{At: g.late(), Kind: pick(g, "restart", "kill", "reload")})
		}
	case "conflict":
		s.Strict, s.Relax = true, []string{"times"}
	case "killmid":
		s.Led, s.Relax = true, []string{"doubles", "events", "since"}
		for range g.n(1, 6) {
			s.Acts = append(s.Acts, Act{At: g.between(), Kind: "killmid", N: g.n(1, 3), How: pick(g, "before", "after")})
		}
	case "lost":
		s.Relax = []string{"lost", "conditions", "events"}
	case "clock", "clockback":
		for range g.n(1, 3) {
			direction := 1.0
			if family == "clockback" {
				direction = -1
			}
			s.Acts = append(s.Acts, Act{At: g.between(), Kind: "step", By: Sec(math.Round(direction * pick(g, g.f(2, 60), g.f(60, 900), g.f(900, 9000))))})
		}
		for range g.n(0, 3) {
			s.Acts = append(s.Acts, Act{At: g.between(), Kind: pick(g, "restart", "kill", "look")})
		}
	}
	sort.SliceStable(s.Acts, func(i, j int) bool { return s.Acts[i].At < s.Acts[j].At })
}

// retarget adds a second target for an autoscaler, and moves it between the two.
func (g *gen) retarget(i int) {
	a := &g.s.Autoscalers[i]
	twin := Autoscaler{Name: a.Name + "x", Spec: a.Spec, Idle: true, Fleet: a.Fleet, Replicas: int32(g.n(1, 10))}
	twin.Load = g.load("", float64(g.n(3, 15)))
	to := ""
	var edited []Event
	for range g.n(1, 4) {
		edited = append(edited, Event{At: g.between(), Kind: "spec"})
	}
	sort.SliceStable(edited, func(i, j int) bool { return edited[i].At < edited[j].At })
	for i := range edited {
		if to = twin.Name; i%2 == 1 {
			to = ""
		}
		next := a.Spec
		next.Target = to
		edited[i].Spec = &next
		a.Events = append(a.Events, edited[i])
		twin.Events = append(twin.Events, Event{At: edited[i].At, Kind: "mirror", Spec: &next})
	}
	sort.SliceStable(a.Events, func(i, j int) bool { return a.Events[i].At < a.Events[j].At })
	g.s.Autoscalers = append(g.s.Autoscalers, twin)
	g.s.Autoscalers[i] = *a
}

// late returns an instant near the end of a sync period.
func (g *gen) late() Dur {
	c := &g.s.Config
	return c.Period*Dur(g.n(0, g.s.Ticks-1)) + Dur(g.f(0.95, 0.99)*float64(c.Period))/Sec(0.001)*Sec(0.001)
}

// between returns an instant between two ticks.
func (g *gen) between() Dur {
	c := &g.s.Config
	return c.Period*Dur(g.n(0, g.s.Ticks-1)) + Dur(g.n(300, int(c.Period.D().Milliseconds())-300))*Sec(0.001)
}

// off returns an instant near at that is not a tick.
func (g *gen) off(at Dur) Dur {
	at = at / Sec(0.001) * Sec(0.001)
	if at%g.s.Config.Period < Sec(0.3) {
		at += Sec(0.5)
	}
	return at
}

// any returns any instant, often a tick.
func (g *gen) any() Dur {
	c := &g.s.Config
	at := c.Period * Dur(g.n(0, g.s.Ticks-1))
	switch {
	case g.p(0.2):
		return at + Sec(0.001)
	case g.p(0.5):
		return at + Sec(float64(g.n(1, int(c.Period/Sec(1)))))
	case g.p(0.5):
		return at + Dur(g.n(1, 1000*int(c.Period/Sec(1))))*Sec(0.001)
	}
	return at
}

func (g *gen) autoscaler(family string, i int) Autoscaler {
	a := Autoscaler{Name: fmt.Sprintf("svc-%d", i)}
	a.Fleet = g.fleet()
	top := g.n(3, 20)
	if g.p(0.05) {
		top = g.n(20, 120)
	}
	a.Spec = g.spec(family, &a, top)
	if family == "conflict" && a.Spec.Behavior != nil { // upstream waits 10 ms before it retries
		for _, r := range []**Rules{&a.Spec.Behavior.Up, &a.Spec.Behavior.Down} {
			if *r == nil {
				*r = &Rules{}
			}
			if (*r).Policies == nil {
				(*r).Policies = []Policy{{Type: "Percent", Value: 100, Period: 15}}
			}
			for i := range (*r).Policies {
				(*r).Policies[i].Period = (*r).Policies[i].Period/5*5 + 3
			}
		}
	}
	if family == "limits" {
		g.limits(&a)
	}
	a.Replicas = int32(g.n(1, top))
	if g.p(0.05) {
		a.Replicas = a.Spec.Max + int32(g.n(0, 4))
	}
	if family == "periods" && g.p(0.7) {
		a.Period = Sec(pick(g, 5.0, 10, 15, 20, 30, 45, 60, 1))
	}
	a.Load = g.load(family, float64(top))
	g.events(family, &a, top)
	return a
}

// limits replaces numbers of an autoscaler with numbers near the limits of 32 and 64 bits.
func (g *gen) limits(a *Autoscaler) {
	for i := range a.Spec.Metrics {
		if g.p(0.8) {
			a.Spec.Metrics[i].Scale = pick(g, 1e6, 1e8, 1e9, 1e12, 1e15)
		}
	}
	if g.p(0.3) {
		for _, task := range a.Fleet.Tasks {
			task.Requests["cpu"] = pick(g, int64(1), 4e18)
		}
	}
	if a.Spec.Behavior == nil {
		return
	}
	for _, rules := range []*Rules{a.Spec.Behavior.Up, a.Spec.Behavior.Down} {
		for i := 0; rules != nil && i < len(rules.Policies); i++ {
			rules.Policies[i].Value = pick(g, rules.Policies[i].Value, math.MaxInt32, math.MaxInt32-1, 1<<30)
		}
	}
}

func (g *gen) load(family string, top float64) (points []Point) {
	base, swing := g.f(0.1, 0.8)*top, g.f(0, 0.5)*top
	period, phase := g.f(200, 3000), g.f(0, 2*math.Pi)
	end := (g.s.Config.Period * Dur(g.s.Ticks)).D().Seconds()
	level := 1.0
	for at := 0.0; at < end; at += g.f(10, 120) {
		if g.p(0.1) {
			level = g.f(0.1, 2)
		}
		load := max(0.01*top, level*(base+swing*math.Sin(phase+2*math.Pi*at/period)))
		if family == "flapping" {
			load = pick(g, 0.2, 0.5, 1, 1, 2) * base
		}
		if family == "zero" && g.p(0.4) {
			load = 0
		}
		points = append(points, Point{At: Sec(at), Load: math.Round(load*100) / 100})
	}
	return points
}

func (g *gen) fleet() Fleet {
	requests := func() map[string]int64 {
		return map[string]int64{"cpu": pick(g, int64(100), 250, 500, 1000, 2000, 333), "memory": pick(g, int64(128<<20), 512<<20, 1<<30, 1500e6) * 1000}
	}
	f := Fleet{Tasks: []Task{{Name: "app", Requests: requests()}}}
	if g.p(0.3) {
		f.Tasks = append(f.Tasks, Task{Name: "side", Requests: requests()})
		if g.p(0.1) {
			delete(f.Tasks[1].Requests, pick(g, "cpu", "memory"))
		}
	}
	if g.p(0.15) {
		f.Whole = requests()
		if g.p(0.2) {
			delete(f.Whole, "memory")
		}
		f.ByConfig = g.p(0.5)
	}
	f.Fresh = g.p(0.3)
	f.Pending = [2]Dur{0, Sec(pick(g, 0.0, 2, 10, 60))}
	f.Startup = [2]Dur{Sec(pick(g, 0.0, 1)), Sec(pick(g, 1.0, 5, 20, 60, 200))}
	f.Stop = [2]Dur{0, Sec(pick(g, 0.0, 10, 40, 100))}
	f.Every = Sec(pick(g, 15.0, 15, 10, 30, 60))
	f.Offset = Sec(float64(g.n(0, int(f.Every/Sec(1))-1)))
	f.Age = Sec(pick(g, 0.0, 0, 5, 10, 20))
	f.Window = Sec(pick(g, 10.0, 15, 15, 30, 60))
	f.Silent = g.p(0.05)
	f.Jitter = pick(g, 0, 0.05, 0.2, 0.6)
	f.Snap = pick(g, 0, 0, 0.05, 0.1, 0.25)
	f.Ghosts = g.p(0.3)
	return f
}

var amounts = []Metric{
	{Amount: "10", Unit: 10},
	{Amount: "500m", Unit: 0.5},
	{Amount: "1.5", Unit: 1.5},
	{Amount: "0.3", Unit: 0.3},
	{Amount: "1k", Unit: 1000},
	{Amount: "2Ki", Unit: 2048},
	{Amount: "1e2", Unit: 100},
	{Amount: "333m", Unit: 0.333},
	{Amount: "7", Unit: 7},
	{Amount: "1", Unit: 1},
	{Amount: "25.125", Unit: 25.125},
	{Amount: "1Mi", Unit: 1 << 20},
	{Amount: "15000u", Unit: 0.015},
	{Amount: "12345678", Unit: 12345678},
}

func (g *gen) metric(f *Fleet, kind string, i int) Metric {
	m := Metric{Type: kind, Name: fmt.Sprintf("m%d", i), Decimals: pick(g, 0, 2, 3, 3, 5)}
	switch kind {
	case "Resource", "ContainerResource":
		m.Name = pick(g, "cpu", "cpu", "cpu", "memory")
		if kind == "ContainerResource" {
			m.Task = f.Tasks[g.IntN(len(f.Tasks))].Name
		}
		if g.p(0.7) {
			m.Goal, m.Percent = "utilization", pick(g, int32(30), 50, 60, 70, 75, 80, 90, 100, 120)
		} else {
			least := int64(20)
			if m.Name == "memory" {
				least = 1 << 30
			}
			milli := max(least, int64(float64(f.Request(m.Name, m.Task))*pick(g, 0.3, 0.5, 0.75, 1)))
			m.Goal, m.Amount, m.Unit = "average", fmt.Sprintf("%dm", milli), float64(milli)/1000
		}
		if g.p(0.35) {
			m.Query, m.Window = true, Sec(pick(g, 0.0, 15, 30, 60, 120))
		}
		m.Decimals = pick(g, 3, 4, 6)
		m.Shared = m.Query && g.p(0.3)
		return m
	case "Pods":
		m.Goal = "average"
	case "Object":
		m.Goal, m.Object = pick(g, "average", "value"), "x"
	case "External":
		m.Goal, m.Series = pick(g, "average", "average", "value"), pick(g, 1, 1, 2, 3)
	}
	amount := amounts[g.IntN(len(amounts))]
	m.Amount, m.Unit = amount.Amount, amount.Unit
	m.Shared = g.p(0.3)
	return m
}

func (g *gen) spec(family string, a *Autoscaler, top int) Spec {
	var s Spec
	if g.p(0.9) {
		s.Min = new(int32(g.n(1, 3)))
	}
	s.Max = int32(max(3, top+g.n(-2, 6)))
	if g.p(0.04) && family != "zero" {
		return g.behaved(family, s)
	}
	zero := family == "zero" || g.s.Config.ScaleToZero && g.p(0.1)
	seen := map[string]bool{}
	for i := range pick(g, 1, 1, 1, 2, 2, 3) {
		kind := pick(g, "Resource", "Resource", "Resource", "ContainerResource", "Pods", "Object", "External", "External")
		if zero && i == 0 {
			kind = pick(g, "External", "External", "Object")
		}
		m := g.metric(&a.Fleet, kind, len(s.Metrics))
		key := m.Type + m.Name + m.Task
		if seen[key] {
			continue
		}
		seen[key] = true
		s.Metrics = append(s.Metrics, m)
	}
	if zero && g.p(0.8) {
		s.Min = new(int32(0))
	}
	return g.behaved(family, s)
}

func (g *gen) behaved(family string, s Spec) Spec {
	s.Behavior = nil
	if family == "labels" { // labels cannot express an empty table
		if g.p(0.6) {
			s.Behavior = &Behavior{Up: g.rules(), Down: g.rules()}
			s.Behavior.Up.Select, s.Behavior.Down.Select = pick(g, "Max", "Min"), pick(g, "Max", "Min")
		}
		return s
	}
	if g.p(0.6) || family == "rates" {
		s.Behavior = &Behavior{}
		if g.p(0.75) {
			s.Behavior.Up = g.rules()
		}
		if g.p(0.75) {
			s.Behavior.Down = g.rules()
		}
	}
	return s
}

func (g *gen) rules() *Rules {
	r := &Rules{}
	if g.p(0.6) {
		r.Window = new(int32(pick(g, 0, 0, 15, 30, 60, 90, 120, 300, 37, 1)))
	}
	if g.p(0.4) {
		r.Select = pick(g, "Max", "Min", "Min", "Disabled")
	}
	if g.p(0.6) {
		for range g.n(1, 3) {
			p := Policy{Type: "Pods", Value: int32(g.n(1, 6)), Period: int32(pick(g, 15, 30, 60, 60, 120, 7, 300, 1))}
			if g.p(0.5) {
				p.Type, p.Value = "Percent", int32(pick(g, 10, 25, 50, 100, 100, 200, 900, 33))
			}
			r.Policies = append(r.Policies, p)
		}
	}
	if g.p(0.2) {
		r.Tolerance = pick(g, "0", "0.05", "50m", "0.2", "333m", "0.15")
	}
	return r
}

func (g *gen) events(family string, a *Autoscaler, top int) {
	add := func(e Event) { a.Events = append(a.Events, e) }
	until := func(at Dur, lo, hi float64) Dur { return at + Sec(math.Round(g.f(lo, hi)*10)/10) }
	kinds := map[string][]string{
		"plain":    {"fail", "remove", "unready"},
		"limits":   {"fail", "fail", "remove", "unready", "missing", "metric", "set"},
		"edits":    {"spec", "spec", "spec", "set", "poke"},
		"faults":   {"metric", "metric", "missing", "stale", "unread", "unwritten", "unready", "fail"},
		"zero":     {"set", "spec", "metric", "unread", "unwritten", "poke"},
		"recreate": {"set", "spec", "metric"},
		"rates":    {"set", "spec", "poke", "unwritten"},
		"slow":     {"metric", "missing", "stale", "unready", "fail", "remove", "unread", "unwritten", "set"},
		"hang":     {"metric", "metric", "metric", "unready", "fail", "set"},
		"retarget": {"set", "metric", "unread", "unwritten", "unready"},
		"ha":       {"set", "metric", "missing", "stale", "unready", "fail", "remove", "unread", "unwritten"},
		"labels":   {"set", "metric", "unready", "fail", "stale", "unread", "spec", "spec"},
		"settings": {"set", "metric", "unready", "fail", "stale"},
		"conflict": {"interfere", "interfere", "interfere", "set", "unready", "fail", "unwritten"},
		"killmid":  {"set", "metric", "missing", "stale", "unready", "fail", "remove", "unread", "unwritten"},
		"lost":     {"lost", "lost", "set", "metric", "unread"},
		"unmade":   {"lost", "lost", "set", "metric", "unread"},
		"flapping": {"unready", "unready", "fail", "remove", "missing", "stale"},
	}[family]
	if kinds == nil {
		kinds = []string{"set", "spec", "poke", "metric", "metric", "missing", "stale", "unready", "unready", "fail", "remove", "unread", "unwritten"}
	}
	if family == "requick" {
		at := g.between()
		add(Event{At: at, Kind: "delete"})
		if create := at + Sec(0.2); create%g.s.Config.Period > Sec(0.2) {
			add(Event{At: create, Kind: "create", Spec: new(g.spec(family, a, top))})
		}
		kinds = []string{"set", "metric"}
	}
	if family == "recreate" && g.p(0.7) {
		at := g.between()
		create := (at/g.s.Config.Period + Dur(g.n(2, 6))) * g.s.Config.Period
		if create < g.s.Config.Period*Dur(g.s.Ticks) {
			add(Event{At: at, Kind: "delete"})
			add(Event{At: create, Kind: "create", Spec: new(g.spec(family, a, top))})
			kinds = []string{"set", "metric"}
		}
	}
	for range g.n(0, 8) {
		e := Event{Kind: pick(g, kinds...), At: g.any()}
		if family == "slow" || family == "hang" || family == "ha" {
			e.At = g.late()
		}
		switch e.Kind {
		case "set":
			e.N = int32(g.n(1, top+3))
			if g.p(0.15) {
				e.N = 0
				if g.p(0.8) {
					add(Event{At: until(e.At, 20, 300), Kind: "set", N: int32(g.n(1, top))})
				}
			}
		case "spec":
			e.At = g.between()
			next := a.Spec
			what := g.n(0, 4)
			if family == "labels" { // the simulation measures by the new spec before hpad discovers it
				what = g.n(1, 4)
			}
			switch what {
			case 0:
				next = g.spec(family, a, top)
			case 1:
				next.Max = int32(max(3, top+g.n(-4, 8)))
			case 2, 3:
				next = g.behaved(family, next)
			case 4:
				if next.Min == nil || *next.Min > 0 {
					next.Min = new(int32(g.n(1, 3)))
				}
			}
			e.Spec = &next
		case "poke":
			e.At = g.between()
		case "metric":
			e.N, e.Until = int32(g.n(0, 2)), until(e.At, 5, 200)
			e.How = pick(g, "error", "error", "empty", "nan", "inf", "negative")
			if family == "hang" {
				e.How = "hang"
			}
		case "missing":
			e.N, e.Until = int32(g.n(1, 4)), until(e.At, 5, 200)
		case "stale":
			e.Until = until(e.At, 20, 200)
		case "unready":
			e.N, e.Until, e.How = int32(g.n(0, top)), until(e.At, 1, 200), pick(g, "False", "False", "False", "Unknown")
		case "fail":
			e.N, e.Until, e.How = int32(g.n(0, top)), until(e.At, 0, 200), pick(g, "Failed", "Failed", "Succeeded")
		case "remove":
			e.N, e.Until = int32(g.n(0, top)), until(e.At, 0, 60)
		case "unread":
			e.Until, e.How = until(e.At, 1, 90), pick(g, "", "", "fleet")
		case "unwritten":
			e.Until = until(e.At, 1, 120)
		case "interfere":
			e.N = int32(g.n(1, top+3))
		case "lost":
			e.Until, e.How = until(e.At, 1, 120), "made"
			if family == "unmade" {
				e.How = ""
			}
		}
		if (family == "slow" || family == "hang" || family == "ha") && e.Until > 0 {
			e.Until = e.Until/g.s.Config.Period*g.s.Config.Period + e.At%g.s.Config.Period
		}
		add(e)
	}
	sort.SliceStable(a.Events, func(i, j int) bool { return a.Events[i].At < a.Events[j].At })
}
