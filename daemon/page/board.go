package page

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hpad/hpad/daemon/api"
)

// A look is at most lookLasts old, or lookFactor times the time that it took, so that looks
// take at most a tenth of a processor however many autoscalers there are.
const (
	lookLasts  = time.Second
	lookFactor = 10
)

// board caches the last look for all clients.
type board struct {
	daemon Daemon

	mu   sync.Mutex
	last *look
	zone *time.Location
	took time.Duration
}

// notice is a line above the list that needs the attention of an operator.
type notice struct {
	State   state  `json:"state"`
	Subject string `json:"subject"`
	Message string `json:"message,omitempty"`
	// Query is the filter of the list that shows it; empty for none.
	Query string `json:"query,omitempty"`
}

// look is all rows, or the changed rows, at one time. It is not modified.
type look struct {
	Time time.Time `json:"time"`
	// All reports whether rows are all, and not only those that changed.
	All     bool     `json:"all"`
	Total   int      `json:"total"`
	Rows    []*row   `json:"rows"`
	Gone    []string `json:"gone,omitempty"`
	Fleets  []string `json:"fleets"`
	Notices []notice `json:"notices"`
}

// look returns all rows with times in a zone.
func (b *board) look(zone *time.Location) *look {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.last == nil || b.zone.String() != zone.String() || time.Since(b.last.Time) > max(lookLasts, lookFactor*b.took) {
		begun := time.Now()
		b.last, b.zone = b.read(begun.In(zone)), zone
		b.took = time.Since(begun)
	}
	return b.last
}

// read reads all autoscalers.
func (b *board) read(now time.Time) *look {
	l := &look{Time: now, All: true, Rows: []*row{}, Fleets: []string{}}
	for view := range b.daemon.AutoscalersAfter("") {
		one := rowOf(&view, now)
		l.Rows = append(l.Rows, &one)
		l.Fleets = append(l.Fleets, one.Fleet)
	}
	slices.Sort(l.Fleets)
	l.Fleets = slices.Compact(l.Fleets)
	l.Total = len(l.Rows)
	l.Notices = b.strip(l.Rows)
	return l
}

// since returns the rows that changed since an earlier look; nil is before the first.
func (l *look) since(earlier *look) *look {
	if earlier == nil {
		return l
	}
	changed := *l
	changed.All, changed.Rows = false, []*row{}
	before := make(map[string]*row, len(earlier.Rows))
	for _, r := range earlier.Rows {
		before[r.Name] = r
	}
	for _, r := range l.Rows {
		if other := before[r.Name]; other == nil || *other != *r {
			changed.Rows = append(changed.Rows, r)
		}
		delete(before, r.Name)
	}
	changed.Gone = slices.Sorted(maps.Keys(before))
	return &changed
}

// of returns the look at one autoscaler alone.
func (l *look) of(name string) *look {
	one := look{Time: l.Time, All: l.All, Rows: []*row{}}
	for _, r := range l.Rows {
		if r.Name == name {
			one.Rows = append(one.Rows, r)
		}
	}
	return &one
}

// maxNotices is how many lines the strip has for things by name.
const maxNotices = 12

// strip is what needs a person now: what is wrong with hpad itself, fleets and sources
// that fail, what is held back; autoscalers are counted.
func (b *board) strip(rows []*row) []notice {
	health, ready := b.daemon.Health(), b.daemon.Readiness()
	notices := []notice{}
	if !health.Healthy {
		notices = append(notices, notice{attention, "hpad", "the scheduler does not tick", ""})
	}
	if health.RefusedReload != "" {
		notices = append(notices, notice{attention, "the last reload was refused", health.RefusedReload, ""})
	}
	counts := map[state]int{}
	for _, r := range rows {
		counts[r.State]++
	}
	for _, s := range []struct {
		state state
		one   string
		many  string
	}{{attention, "autoscaler needs attention", "autoscalers need attention"}, {held, "autoscaler is held", "autoscalers are held"}} {
		if n := counts[s.state]; n > 0 {
			what := s.many
			if n == 1 {
				what = s.one
			}
			notices = append(notices, notice{s.state, fmt.Sprintf("%d %s", n, what), "", "?state=" + string(s.state)})
		}
	}
	return append(notices, named(ready.Problems, health.HeldBack)...)
}

// named are the problems of what is no autoscaler.
func named(problems, heldBack []api.Problem) []notice {
	isHeld := map[api.Problem]bool{}
	for _, problem := range heldBack {
		isHeld[problem] = true
	}
	var notices []notice
	more := 0
	for _, problem := range problems {
		if strings.HasPrefix(problem.Subject, "autoscaler ") || problem.Subject == "configuration" {
			continue
		}
		if len(notices) == maxNotices {
			more++
			continue
		}
		as := attention
		if isHeld[problem] || problem.Message == api.DryRun {
			as = held
		}
		notices = append(notices, notice{as, problem.Subject, problem.Message, ""})
	}
	if more > 0 {
		notices = append(notices, notice{attention, fmt.Sprintf("and %d more", more), `"hpad health" names all`, ""})
	}
	return notices
}
