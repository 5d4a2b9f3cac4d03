package records

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets/clock"
)

// Pauses contains the active pauses, including pauses by breakers. It is safe for concurrent use.
type Pauses struct {
	// mu is held while table is replaced and recorded, so that changes are recorded in the order in
	// which they are made.
	mu    sync.Mutex
	table atomic.Pointer[pauseTable]
}

// pauseTable is immutable. Its times are steady times.
type pauseTable struct {
	active map[policy.Scope]policy.Pause
	// ended maps scopes to the pauses that ended within endingsKept.
	ended map[policy.Scope]ending
	// next is the earliest end of an active pause; zero if no pause has an end.
	next time.Time
	// breakers lists the fleets with an open breaker.
	breakers []string
}

// ending is the end of a pause.
type ending struct {
	at      time.Time
	message string
	pause   policy.Pause
}

// endingsKept is longer than any sync period, so that the next pass of each autoscaler reports
// the end of its pause.
const endingsKept = 2 * time.Hour

func newPauseTable(active map[policy.Scope]policy.Pause, ended map[policy.Scope]ending) *pauseTable {
	t := &pauseTable{active: active, ended: ended}
	for _, pause := range active {
		if !pause.Until.IsZero() && (t.next.IsZero() || pause.Until.Before(t.next)) {
			t.next = pause.Until
		}
		if pause.Breaker {
			t.breakers = append(t.breakers, pause.Fleet)
		}
	}
	return t
}

// Restore activates the stored pauses.
func (p *Pauses) Restore(stored []policy.Pause) {
	active := make(map[policy.Scope]policy.Pause, len(stored))
	for _, pause := range stored {
		active[pause.Scope] = pause
	}
	p.table.Store(newPauseTable(active, nil))
}

// Put activates and records a pause.
func (p *Pauses) Put(pause policy.Pause, to *Recorder) *Commit {
	p.mu.Lock()
	defer p.mu.Unlock()
	before := p.table.Load()
	active := maps.Clone(before.active)
	active[pause.Scope] = pause
	p.table.Store(newPauseTable(active, before.ended))
	return to.pause(map[policy.Scope]*policy.Pause{pause.Scope: &pause})
}

// End ends the pauses that the function ends selects, and records this. The function also returns
// the message for each ended pause. The commit is nil if no pause ends.
func (p *Pauses) End(now time.Time, to *Recorder, ends func(policy.Pause) (message string, ends bool)) (ended []policy.Pause, recorded *Commit) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before := p.table.Load()
	active, endings, changes := maps.Clone(before.active), map[policy.Scope]ending{}, map[policy.Scope]*policy.Pause{}
	for scope, earlier := range before.ended {
		if now.Sub(earlier.at) < endingsKept {
			endings[scope] = earlier
		}
	}
	for scope, pause := range before.active {
		if message, ok := ends(pause); ok {
			delete(active, scope)
			endings[scope], changes[scope] = ending{now, message, pause}, nil
			ended = append(ended, pause)
		}
	}
	if ended == nil {
		return nil, nil
	}
	p.table.Store(newPauseTable(active, endings))
	return ended, to.pause(changes)
}

// EndDue ends expired pauses, and the pauses of breakers that are no longer configured.
func (p *Pauses) EndDue(now time.Time, to *Recorder, hasBreaker func(fleet string) bool) (ended []policy.Pause) {
	table := p.table.Load()
	gone := func(fleet string) bool { return !hasBreaker(fleet) }
	if (table.next.IsZero() || now.Before(table.next)) && !slices.ContainsFunc(table.breakers, gone) {
		return nil
	}
	ended, _ = p.End(now, to, func(pause policy.Pause) (string, bool) {
		if pause.Breaker && gone(pause.Fleet) {
			return "the fleet has no breaker any more", true
		}
		if pause.Breaker {
			return "the breaker's window is over", pause.Ended(now)
		}
		return "the pause is over", pause.Ended(now)
	})
	return ended
}

// Active returns the pauses by scope. Some may have expired.
func (p *Pauses) Active() map[policy.Scope]policy.Pause { return p.table.Load().active }

// LastEnded returns the last ended pause of a scope, and the time when it ended.
func (p *Pauses) LastEnded(scope policy.Scope) (policy.Pause, time.Time) {
	last := p.table.Load().ended[scope]
	return last.pause, last.at
}

// Of returns the active pauses of an autoscaler, the widest first, and the message of the last
// pause that ended; both may be empty.
func (p *Pauses) Of(name, fleet string, now time.Time, scale *clock.Scale) (active []policy.Pause, resumed string) {
	table := p.table.Load()
	if len(table.active) == 0 && len(table.ended) == 0 {
		return nil, ""
	}
	var last ending
	for _, scope := range [...]policy.Scope{{}, {Fleet: fleet}, {Fleet: fleet, Breaker: true}, {Autoscaler: name}} {
		pause, ok := table.active[scope]
		if ok && !pause.Ended(now) {
			pause.Message = PauseText(&pause, scale)
			active = append(active, pause)
		}
		if ended := table.ended[scope]; ended.at.After(last.at) {
			last = ended
		}
	}
	return active, last.message
}

// PauseText describes a pause, with its end by the wall clock.
func PauseText(pause *policy.Pause, scale *clock.Scale) string {
	var text strings.Builder
	if pause.Breaker {
		fmt.Fprintf(&text, "the breaker of fleet %q has paused scale-downs since %s", pause.Fleet, scale.Wall(pause.Since).Format(time.RFC3339))
		if pause.Renews {
			text.WriteString(", until fewer removals are requested")
		} else {
			text.WriteString(" until " + scale.Wall(pause.Until).Format(time.RFC3339))
		}
		fmt.Fprintf(&text, ": %s (to resume, run hpad resume --fleet %s)", pause.Reason, pause.Fleet)
		return text.String()
	}
	switch pause.Direction {
	case policy.Up:
		text.WriteString("scale-ups are paused")
	case policy.Down:
		text.WriteString("scale-downs are paused")
	default:
		text.WriteString("paused")
	}
	if pause.Autoscaler == "" {
		text.WriteString(" for " + pause.String())
	}
	if pause.Author != "" {
		text.WriteString(" by " + pause.Author)
	}
	if !pause.Until.IsZero() {
		text.WriteString(" until " + scale.Wall(pause.Until).Format(time.RFC3339))
	}
	if pause.Reason != "" {
		text.WriteString(": " + pause.Reason)
	}
	return text.String()
}

// ComparePauses orders pauses, the widest first. The breaker of a fleet comes after the fleet.
func ComparePauses(a, b policy.Pause) int {
	order := cmp.Or(strings.Compare(a.Autoscaler, b.Autoscaler), strings.Compare(a.Fleet, b.Fleet))
	if order == 0 && a.Breaker != b.Breaker {
		return map[bool]int{false: -1, true: 1}[a.Breaker]
	}
	return order
}

// PauseFields returns log fields for a pause. The author may be empty.
func PauseFields(scope policy.Scope, author string) []zap.Field {
	fields := []zap.Field{zap.Stringer("scope", scope)}
	switch {
	case scope.Autoscaler != "":
		fields = []zap.Field{zap.String("autoscaler", scope.Autoscaler)}
	case scope.Fleet != "":
		fields = []zap.Field{zap.String("fleet", scope.Fleet)}
	}
	if author != "" {
		fields = append(fields, zap.String("author", author))
	}
	return fields
}
