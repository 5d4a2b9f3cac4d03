package nomad

import (
	"context"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/sync/errgroup"
)

// sweep looks, part by part, whether all allocations still are what the book has. The
// stamps of jobs tell of nearly everything. They do not tell of a task that was started
// again within the moment in which its client collects what it tells; this does.
type sweep struct {
	// began is when it began; zero before the first. It takes so long, which is for as
	// many parts, of which so many are done.
	began time.Time
	takes time.Duration
	parts []string
	done  int
	// through is when the last one began that is through.
	through time.Time
	// busy means that one of the readings under way looks.
	busy bool
}

// A sweep takes as long as there are allocations, and not longer than longestSweep:
// among a thousand all are looked at every 15 seconds.
const (
	sweptIn      = 15 * time.Millisecond
	longestSweep = 4 * time.Minute
)

// trusted is how long what is known of allocations is good without a sweep: where none
// is through in that time, they are read again.
const trusted = 3 * longestSweep

// sweptWhole is how many allocations are looked at in one call.
const sweptWhole = 10_000

// due returns the parts that are to be looked at now, of a scope with about so many
// allocations.
func (w *sweep) due(present int, now time.Time) []string {
	if elapsed := now.Sub(w.began); w.began.IsZero() || w.done == len(w.parts) && elapsed >= w.takes {
		w.began, w.takes = now, min(time.Duration(present)*sweptIn, longestSweep)
		w.parts, w.done = parts(present, sweptWhole), 0
	}
	until := 1 + int(float64(len(w.parts))*float64(now.Sub(w.began))/float64(max(w.takes, 1)))
	return w.parts[w.done:max(w.done, min(until, len(w.parts)))]
}

// look looks at the parts that are due, and forgets the groups in which something is
// not as the book has it; it reports whether there are any. Parts that cannot be read
// are due again.
func (b *book) look(ctx context.Context, s *session, at scope) bool {
	b.mu.Lock()
	if b.sweep.busy || b.present == 0 {
		b.mu.Unlock()
		return false
	}
	parts := slices.Clone(b.sweep.due(b.present, time.Now()))
	b.sweep.busy = true
	b.mu.Unlock()
	l := &look{book: b, began: time.Now(), parts: map[string]bool{}, same: map[*knownGroup]int{}}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(s.config.fetching())
	for _, part := range parts {
		group.Go(func() error { return l.read(ctx, s, at, part) })
	}
	err := group.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	l.forget()
	b.sweep.busy = false
	if err == nil {
		b.sweep.done += len(parts)
	}
	if len(parts) > 0 && b.sweep.done == len(b.sweep.parts) {
		b.sweep.through = b.sweep.began
	}
	return l.forgot
}

// swept returns when the last sweep began that is through.
func (b *book) swept() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.sweep.through
}

// glance is as much of an allocation as tells whether it changed.
type glance struct {
	id, job, group []byte
	index          uint64
}

// next reads one allocation.
func (g *glance) next(d *jsontext.Decoder) error {
	g.id, g.job, g.group, g.index = g.id[:0], g.job[:0], g.group[:0], 0
	return eachMember(d, func(name []byte) (err error) {
		switch string(name) {
		case "ID":
			g.id, err = appendText(g.id, d)
		case "JobID":
			g.job, err = appendText(g.job, d)
		case "TaskGroup":
			g.group, err = appendText(g.group, d)
		case "ModifyIndex":
			g.index, err = number(d)
		default:
			err = d.SkipValue()
		}
		return err
	})
}

// look is one look at some parts. The book's lock guards it, too.
type look struct {
	book  *book
	began time.Time
	// parts are those that were read, and same how many allocations of a group are in
	// them as the book has them.
	parts map[string]bool
	same  map[*knownGroup]int
	// forgot means that some group was forgotten.
	forgot bool
}

// read reads one part, and forgets the groups of which it has what the book has not.
func (l *look) read(ctx context.Context, s *session, at scope, part string) error {
	b := l.book
	params := map[string]string{"task_states": "false"}
	if part != "" {
		params["prefix"] = part
	}
	same := map[*knownGroup]int{}
	var g glance
	_, err := s.stream(ctx, at, "/v1/allocations", params, presentAllocs, func(d *jsontext.Decoder) error {
		if err := g.next(d); err != nil {
			return err
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		key := groupKey{job: string(g.job), group: string(g.group)}
		switch known := b.groups[key]; {
		case known == nil || known.knownGroup == nil:
		case known.has(&g):
			same[known.knownGroup]++
		case known.read.Before(l.began):
			known.knownGroup, l.forgot = nil, true
		}
		return nil
	})
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	l.parts[part] = true
	for known, n := range same {
		l.same[known] += n
	}
	return nil
}

// forget forgets the groups of which the book has what the parts have not.
func (l *look) forget() {
	if len(l.parts) == 0 {
		return
	}
	for _, known := range l.book.groups {
		if known.knownGroup != nil && known.read.Before(l.began) && known.within(l.parts) != l.same[known.knownGroup] {
			known.knownGroup, l.forgot = nil, true
		}
	}
}

// has reports whether a group has an allocation as it is.
func (k *knownGroup) has(g *glance) bool {
	return slices.ContainsFunc(k.marks, func(m mark) bool { return m.index == g.index && m.id == string(g.id) })
}

// within returns how many allocations of a group are in parts.
func (k *knownGroup) within(parts map[string]bool) int {
	if parts[""] {
		return len(k.marks)
	}
	n := 0
	for _, m := range k.marks {
		if parts[m.id[:min(2, len(m.id))]] {
			n++
		}
	}
	return n
}
