package page

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hpad/hpad/daemon/api"
)

// boards has one board for each zone of those who look, at most maxBoards at once.
type boards struct {
	daemon Daemon
	mu     sync.Mutex
	byZone map[string]*board
}

const (
	maxBoards = 4
	// boardLasts is how long a board is kept that nobody looks at.
	boardLasts = time.Minute
	// A look is no older than lookLasts, or than as many times what it takes, so that looks
	// take no more than a tenth of a processor however many autoscalers there are.
	lookLasts  = time.Second
	lookFactor = 10
	// maxGone is how many names are remembered that are gone.
	maxGone = 1000
)

// board is all rows as of the last look, and which look changed them.
type board struct {
	daemon Daemon
	zone   *time.Location
	// epoch tells this board from others, whose versions say nothing of it.
	epoch string

	mu      sync.Mutex
	used    time.Time
	at      time.Time
	took    time.Duration
	version int64
	rows    map[string]*kept
	sorted  []*row
	fleets  []string
	notices []notice
	// gone has the version in which a name went; what happened before since is forgotten.
	gone  map[string]int64
	since int64
}

// kept is a row and the version that made it.
type kept struct {
	row
	version int64
}

// notice is a line of the strip: what needs a person now.
type notice struct {
	State   state  `json:"state"`
	Subject string `json:"subject"`
	Message string `json:"message,omitempty"`
	// Query is the choice of the list that shows it; empty for none.
	Query string `json:"query,omitempty"`
}

// look is a board at one time.
type look struct {
	Version string    `json:"version"`
	Time    time.Time `json:"time"`
	// All reports whether rows are all, and not only what changed since a version.
	All     bool     `json:"all"`
	Total   int      `json:"total"`
	Rows    []*row   `json:"rows"`
	Gone    []string `json:"gone,omitempty"`
	Fleets  []string `json:"fleets"`
	Notices []notice `json:"notices"`
}

// at returns the board of a zone.
func (b *boards) at(zone *time.Location) *board {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	for name, other := range b.byZone {
		if name != zone.String() && other.unused(now) {
			delete(b.byZone, name)
		}
	}
	one := b.byZone[zone.String()]
	switch {
	case one != nil:
		return one
	case len(b.byZone) >= maxBoards && zone != time.UTC:
		zone = time.UTC // for whom there is always room
		if one = b.byZone[zone.String()]; one != nil {
			return one
		}
	}
	one = &board{daemon: b.daemon, zone: zone, epoch: fmt.Sprintf("%x", now.UnixNano()), rows: map[string]*kept{}, gone: map[string]int64{}, used: now}
	if b.byZone == nil {
		b.byZone = map[string]*board{}
	}
	b.byZone[zone.String()] = one
	time.AfterFunc(boardLasts, func() { b.sweep(zone.String(), one) })
	return one
}

// sweep drops a board that nobody uses any more, so that it takes no memory.
func (b *boards) sweep(name string, one *board) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.byZone[name] != one {
		return
	}
	if one.unused(time.Now()) {
		delete(b.byZone, name)
		return
	}
	time.AfterFunc(boardLasts, func() { b.sweep(name, one) })
}

func (b *board) unused(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return now.Sub(b.used) > boardLasts
}

// look returns all rows, or with the version of an earlier look what changed since.
func (b *board) look(since string) look {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used = time.Now()
	if b.used.Sub(b.at) > max(lookLasts, lookFactor*b.took) {
		b.refresh()
	}
	l := look{Version: fmt.Sprintf("%s-%d", b.epoch, b.version), Time: b.at, Total: len(b.sorted), Fleets: b.fleets, Notices: b.notices}
	epoch, number, _ := strings.Cut(since, "-")
	var from int64
	if _, err := fmt.Sscan(number, &from); err != nil || epoch != b.epoch || from < b.since {
		l.All, l.Rows = true, b.sorted
		return l
	}
	l.Rows = []*row{}
	for _, r := range b.sorted {
		if b.rows[r.Name].version > from {
			l.Rows = append(l.Rows, r)
		}
	}
	for name, version := range b.gone {
		if version > from {
			l.Gone = append(l.Gone, name)
		}
	}
	slices.Sort(l.Gone)
	return l
}

// refresh looks at all autoscalers.
func (b *board) refresh() {
	begun := time.Now()
	b.version++
	now := begun.In(b.zone)
	rows := make(map[string]*kept, len(b.rows))
	b.sorted = make([]*row, 0, len(b.rows))
	fleets := map[string]bool{}
	for view := range b.daemon.AutoscalersAfter("") {
		one := &kept{row: rowOf(&view, now), version: b.version}
		if before := b.rows[one.Name]; before != nil && before.row == one.row {
			one = before
		}
		rows[one.Name] = one
		b.sorted = append(b.sorted, &one.row)
		fleets[one.Fleet] = true
		delete(b.gone, one.Name)
	}
	for name := range b.rows {
		if rows[name] == nil {
			b.gone[name] = b.version
		}
	}
	if len(b.gone) > maxGone {
		clear(b.gone)
		b.since = b.version
	}
	b.rows = rows
	b.fleets = b.fleets[:0:0]
	for fleet := range fleets {
		b.fleets = append(b.fleets, fleet)
	}
	slices.Sort(b.fleets)
	b.notices = b.strip()
	b.at, b.took = time.Now(), time.Since(begun)
}

// maxNotices is how many lines the strip has for things by name.
const maxNotices = 12

// strip is what needs a person now: what is wrong with hpad itself, fleets and sources
// that fail, what is held back; autoscalers are counted.
func (b *board) strip() []notice {
	health, ready := b.daemon.Health(), b.daemon.Readiness()
	notices := []notice{}
	if !health.Healthy {
		notices = append(notices, notice{attention, "hpad", "the scheduler does not tick", ""})
	}
	if health.RefusedReload != "" {
		notices = append(notices, notice{attention, "the last reload was refused", health.RefusedReload, ""})
	}
	counts := map[state]int{}
	for _, r := range b.sorted {
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
	return append(notices, b.named(ready.Problems, health.HeldBack)...)
}

// named are the problems of what is no autoscaler.
func (b *board) named(problems, heldBack []api.Problem) []notice {
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
