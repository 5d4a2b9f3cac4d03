package sim

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"sort"
	"strings"
	"time"
)

// Difference is the first difference between the evaluations of an autoscaler.
type Difference struct {
	Scenario, Autoscaler string
	At                   Dur
	// Class lists the fields that differ.
	Class string
	// Upstream and HPAD are the lines that differ; nil if only one side evaluated. Before is
	// the last line that agrees.
	Upstream, HPAD, Before *Line
}

// isKnown reports whether a difference is understood and affects no decision. Compare skips it.
func isKnown(s *Scenario, d *Difference) bool {
	if d.Upstream == nil || d.HPAD == nil {
		return false
	}
	// hpad stores a status only if something relevant changed, and an evaluation that cannot
	// read the target keeps the previous metrics. So they can be older after a restart.
	if d.Class == "metrics" && d.Upstream.Read == -1 && len(s.Acts) > 0 {
		return true
	}
	// The next reading reveals to hpad whether a write that timed out took effect.
	return slices.Contains(s.Relax, "lost") && text(d.Upstream.Wrote) == text(d.HPAD.Wrote) && d.Upstream.Read == d.HPAD.Read && d.Upstream.Cur == d.HPAD.Cur &&
		(len(d.HPAD.Wrote) > 0 || d.HPAD.Read == -1) && text(d.Upstream.Recs) == text(d.HPAD.Recs) && d.HPAD.Err
}

// Compare returns the first difference of each autoscaler, and the number of lines that agree.
func Compare(s *Scenario, upstream, hpad *Played) (differences []Difference, same int) {
	if upstream.Error != "" || hpad.Error != "" {
		class := "error: " + firstWords(upstream.Error+hpad.Error)
		differences = append(differences, Difference{Scenario: s.Name, Class: class})
	}
	a, b := byAutoscaler(upstream.Lines), byAutoscaler(s.lasting(hpad.Lines))
	for _, g := range hpad.Ghosts { // upstream reported the evaluation
		if i := slices.IndexFunc(a[g.A], func(l Line) bool { return l.T == g.T }); i >= 0 {
			a[g.A] = slices.Delete(a[g.A], i, i+1)
		}
	}
	names := map[string]bool{}
	for name := range a {
		names[name] = true
	}
	for name := range b {
		names[name] = true
	}
	var sorted []string
	for name := range names {
		sorted = append(sorted, name)
	}
	sort.Strings(sorted)
	for _, name := range sorted {
		u, h := a[name], b[name]
		for i := 0; i < max(len(u), len(h)); i++ {
			d := Difference{Scenario: s.Name, Autoscaler: name}
			if i > 0 {
				d.Before = &u[i-1]
			}
			if i < len(u) {
				d.Upstream, d.At = &u[i], u[i].T
			}
			if i < len(h) {
				d.HPAD, d.At = &h[i], h[i].T
			}
			d.Class = differs(d.Upstream, d.HPAD, s.Relax)
			if isKnown(s, &d) {
				continue
			}
			if d.Class != "" {
				differences = append(differences, d)
				break
			}
			same++
		}
	}
	return differences, same
}

// lasting returns the lines of hpad without evaluations that wrote nothing, were lost by a kill
// and happened again at the same instant.
func (s *Scenario) lasting(lines []Line) (lasting []Line) {
	if !slices.ContainsFunc(s.Acts, func(a Act) bool { return a.Kind == "killmid" }) {
		return lines
	}
	for i, l := range lines {
		again := slices.ContainsFunc(lines[i+1:], func(later Line) bool { return later.A == l.A && later.T == l.T })
		if len(l.Wrote) > 0 || !again {
			lasting = append(lasting, l)
		}
	}
	return lasting
}

func firstWords(text string) string {
	text, _, _ = strings.Cut(text, "\n")
	if _, after, ok := strings.Cut(text, "s: "); ok {
		text = after
	}
	return text[:min(60, len(text))]
}

func byAutoscaler(lines []Line) map[string][]Line {
	all := map[string][]Line{}
	for _, l := range lines {
		all[l.A] = append(all[l.A], l)
	}
	for _, list := range all {
		sort.SliceStable(list, func(i, j int) bool { return list[i].T < list[j].T })
	}
	return all
}

// once returns a line without repeated recommendations.
func once(l *Line) *Line {
	next := *l
	next.Recs = Set(slices.Clone(l.Recs))
	return &next
}

// timeless returns a line without the times of its conditions.
func timeless(l *Line) *Line {
	next := *l
	next.Conditions = nil
	for _, c := range l.Conditions {
		c, _, _ = strings.Cut(c, "@")
		next.Conditions = append(next.Conditions, c)
	}
	return &next
}

// zeroOnly returns a line with only the condition that affects decisions, without its time.
func zeroOnly(l *Line) *Line {
	next := *l
	next.Conditions = nil
	for _, c := range l.Conditions {
		if strings.HasPrefix(c, "ScaledToZero=") {
			c, _, _ = strings.Cut(c, "@")
			next.Conditions = append(next.Conditions, c)
		}
	}
	return &next
}

// differs returns the names of the fields that differ, or an empty string.
func differs(u, h *Line, relax []string) string {
	switch {
	case u == nil:
		return "an evaluation of hpad alone"
	case h == nil:
		return "an evaluation of upstream alone"
	case u.T != h.T && (!slices.Contains(relax, "times") || (u.T-h.T).D().Abs() >= 100*time.Millisecond):
		return "instant"
	}
	if slices.Contains(relax, "doubles") {
		u, h = once(u), once(h)
	}
	if slices.Contains(relax, "stored") {
		next := *h
		next.Events = slices.DeleteFunc(slices.Clone(h.Events), func(e string) bool { return e == "FailedUpdateStatus" })
		h = &next
	}
	if slices.Contains(relax, "since") {
		u, h = timeless(u), timeless(h)
	}
	if slices.Contains(relax, "conditions") {
		u, h = zeroOnly(u), zeroOnly(h)
	}
	var what []string
	for _, f := range []struct {
		name string
		u, h any
	}{
		{"read", u.Read, h.Read},
		{"wrote", u.Wrote, h.Wrote},
		{"want", u.Want, h.Want},
		{"current", u.Cur, h.Cur},
		{"last scale", u.Last, h.Last},
		{"ready", u.Ready, h.Ready},
		{"conditions", u.Conditions, h.Conditions},
		{"metrics", u.Metrics, h.Metrics},
		{"recommendations", u.Recs, h.Recs},
		{"ups", u.Ups, h.Ups},
		{"downs", u.Downs, h.Downs},
		{"events", u.Events, h.Events},
		{"error", u.Err, h.Err},
	} {
		if slices.Contains(relax, f.name) && f.name != "conditions" {
			continue
		}
		x, y := text(f.u), text(f.h)
		if slices.Contains(relax, "times") {
			x, y = coarse(x), coarse(y)
		}
		if x != y {
			what = append(what, f.name)
		}
	}
	return strings.Join(what, ", ")
}

var instants = regexp.MustCompile(`([@"])([0-9hm]*[0-9.]+(?:s|ms|µs))`)

// coarse returns a text with its times rounded to tenths of a second.
func coarse(text string) string {
	return instants.ReplaceAllStringFunc(text, func(found string) string {
		d, err := time.ParseDuration(found[1:])
		if err != nil {
			return found
		}
		return found[:1] + d.Truncate(100*time.Millisecond).String()
	})
}

func text(v any) string {
	b, _ := json.Marshal(v)
	if s := string(b); s != "null" {
		return s
	}
	return "[]"
}

// Set sorts a list and removes duplicates.
func Set(all []string) []string {
	sort.Strings(all)
	return slices.Compact(all)
}

// String returns the difference as text for a reader.
func (d *Difference) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s at %s: %s\n", d.Scenario, d.Autoscaler, d.At, d.Class)
	for _, l := range []struct {
		who  string
		line *Line
	}{{"before  ", d.Before}, {"upstream", d.Upstream}, {"hpad    ", d.HPAD}} {
		if l.line != nil {
			fmt.Fprintf(&b, "  %s %s\n", l.who, text(l.line))
		}
	}
	return b.String()
}
