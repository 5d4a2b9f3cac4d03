package sim

import (
	"math"
	"slices"
)

// load returns the current load.
func (t *Target) load() float64 {
	load := 0.0
	for _, p := range t.a.Load {
		if p.At > t.now {
			break
		}
		load = p.Load
	}
	return load * (1 + t.a.Fleet.Jitter*(t.draw("load", int(t.now/Sec(5)))-0.5))
}

// use returns a function that returns the load of an instance, relative to its target value.
func (t *Target) use() func(m *member) float64 {
	serving := 0
	for _, m := range t.members {
		if t.serves(m) {
			serving++
		}
	}
	share := t.load() / float64(max(1, serving))
	f := &t.a.Fleet
	return func(m *member) float64 {
		use := share * (1 + f.Jitter*(t.draw("use", m.ord, int(t.now/Sec(1)))-0.5))
		if !t.serves(m) {
			use = 1.8 * t.draw("warming", m.ord, int(t.now/Sec(1)))
		}
		if f.Snap > 0 {
			use = math.Round(use/f.Snap) * f.Snap
		}
		return min(use, 3)
	}
}

// Request returns the request of an instance for a resource in milli-units: of one task, or of
// the whole instance if task is empty.
func (f *Fleet) Request(resource, task string) (sum int64) {
	if whole, ok := f.Whole[resource]; ok && task == "" {
		return whole
	}
	for _, t := range f.Tasks {
		if task == "" || t.Name == task {
			sum += t.Requests[resource]
		}
	}
	return sum
}

// maxValue is the largest value of a metric. Its milli-units are near the limit of 64 bits.
const maxValue = 9e15

// scaled returns a value multiplied by Scale.
func (m *Metric) scaled(value float64) float64 {
	if m.Scale == 0 {
		return value
	}
	return math.Trunc(min(max(value*m.Scale, -maxValue), maxValue))
}

// unit returns the usage of an instance at the target value, in milli-units.
func (t *Target) unit(m *Metric) float64 {
	if m.Goal == "utilization" {
		return float64(t.a.Fleet.Request(m.Name, m.Task)) * float64(m.Percent) / 100
	}
	return m.Unit * 1000
}

// publish takes samples at an instant.
func (t *Target) publish(at Dur) {
	now := t.now
	t.now = at // the first samples are from before the start
	defer func() { t.now = max(now, at) }()
	if t.during("stale", -1) != nil {
		return
	}
	t.samples = nil
	var wanted []Metric
	for _, m := range t.specMetrics() {
		if m.Sampled() {
			wanted = append(wanted, m)
		}
	}
	if len(wanted) == 0 {
		return
	}
	f := &t.a.Fleet
	use := t.use()
	missing := t.during("missing", -1)
	for _, m := range t.members {
		if at < m.started+f.Age+f.Window/2 || m.failed <= at || m.stops <= at {
			continue
		}
		if missing != nil && m.ord%missingStep(missing) == 0 {
			continue
		}
		s := Sample{ID: t.id(m), At: at - f.Age, Window: f.Window, Tasks: map[string]map[string]int64{}}
		for _, task := range f.Tasks {
			s.Tasks[task.Name] = map[string]int64{}
		}
		for i := range wanted {
			metric := &wanted[i]
			total := t.unit(metric) * use(m)
			if metric.Name == "memory" {
				total = t.unit(metric) * (0.7 + 0.3*use(m))
			}
			if e := t.during("metric", i); e != nil && e.How == "negative" {
				total = -total
			}
			left := int64(metric.scaled(total/1000) * 1000)
			if metric.Scale == 0 {
				left = int64(total)
			}
			for at, task := range f.Tasks {
				if metric.Task != "" && metric.Task != task.Name {
					continue
				}
				part := left
				if metric.Task == "" && at < len(f.Tasks)-1 {
					part = left / 3
				}
				left -= part
				s.Tasks[task.Name][metric.Name] = part
			}
		}
		// A task without a measurement contributes no sample for the resource (R26).
		t.samples = append(t.samples, s)
	}
}

// missingStep returns n if every n-th instance has no samples.
func missingStep(e *Event) int { return max(1, int(e.N)) }

func (t *Target) specMetrics() []Metric {
	if len(t.spec.Metrics) == 0 {
		return []Metric{{Type: "Resource", Name: "cpu", Goal: "utilization", Percent: 80}}
	}
	return t.spec.Metrics
}

// Metrics returns the metrics of the spec at an instant, after defaulting.
func (t *Target) Metrics(at Dur) []Metric {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.advance(at)
	return slices.Clone(t.specMetrics())
}

// Samples returns the latest samples of the fleet.
func (t *Target) Samples(at Dur) []Sample {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.advance(at)
	for i, m := range t.specMetrics() {
		if e := t.during("metric", i); m.Sampled() && e != nil && e.How == "empty" {
			return nil
		}
	}
	if t.a.Fleet.Ghosts {
		return t.samples
	}
	var kept []Sample
	for _, s := range t.samples {
		if slices.ContainsFunc(t.members, func(m *member) bool { return t.id(m) == s.ID }) {
			kept = append(kept, s)
		}
	}
	return kept
}

// Failure returns the kind of failure of metric i at an instant; empty if it works.
func (t *Target) Failure(at Dur, i int) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.advance(at)
	if e := t.during("metric", i); e != nil {
		return e.How
	}
	return ""
}

// Value is one series of metric i.
type Value struct {
	// ID identifies an instance, or distinguishes the series of an External metric.
	ID    string
	Value float64
}

// Values returns the result of a query for metric i at an instant. An error is an error of the
// source.
func (t *Target) Values(at Dur, i int) (values []Value, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.advance(at)
	metrics := t.specMetrics()
	if i >= len(metrics) || t.gone {
		return nil, nil
	}
	m := &metrics[i]
	how := ""
	if e := t.during("metric", i); e != nil {
		how = e.How
	}
	switch how {
	case "error":
		return nil, ErrMetric
	case "hang":
		return nil, ErrHang
	case "empty":
		return nil, nil
	}
	scale := math.Pow(10, float64(m.Decimals))
	round := func(v float64) float64 {
		switch how {
		case "nan":
			return math.NaN()
		case "inf":
			return math.Inf(1)
		case "negative":
			v = -v
		}
		return m.scaled(math.Round(v*scale) / scale)
	}
	use := t.use()
	switch m.Type {
	case "Object", "External":
		total := m.Unit * t.load()
		if m.Goal == "value" {
			serving := 0
			for _, one := range t.members {
				if t.serves(one) {
					serving++
				}
			}
			total /= float64(max(1, serving))
		}
		if t.a.Fleet.Snap > 0 && m.Unit > 0 {
			total = math.Round(total/m.Unit/t.a.Fleet.Snap) * t.a.Fleet.Snap * m.Unit
		}
		n := max(1, m.Series)
		for s := range n {
			values = append(values, Value{ID: string(rune('a' + s)), Value: round(total / float64(n))})
		}
		if how == "nan" || how == "inf" { // one invalid value is enough
			for s := range values[1:] {
				values[s+1].Value = 1
			}
		}
		return values, nil
	}
	missing := t.during("missing", -1)
	for _, one := range t.members {
		in := t.look(one)
		if in.Phase != "Running" || t.now < one.started+Sec(3) {
			continue
		}
		if missing != nil && one.ord%missingStep(missing) == 0 {
			continue
		}
		values = append(values, Value{ID: in.ID, Value: round(t.unit(m) / 1000 * use(one))})
	}
	if how == "nan" || how == "inf" {
		for s := range values[min(1, len(values)):] {
			values[s+1].Value = 1
		}
	}
	return values, nil
}

// AdapterMilli converts a value to milli-units as prometheus-adapter does.
func AdapterMilli(v float64) int64 { return int64(v * 1000.0) }
