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

// pauseTable is immutable. Its times are monotonic times.
type pauseTable struct {
	active map[policy.Scope]policy.Pause
	// ended maps scopes to the ends of their pauses within the last endingsKept.
	ended map[policy.Scope]ending
}

// ending is the end of a pause.
type ending struct {
	at      time.Time
	message string
}

// endingsKept is longer than any sync period, so that the next pass of each autoscaler reports
// the end of its pause.
const endingsKept = 2 * time.Hour

// Restore activates the stored pauses.
func (p *Pauses) Restore(stored []policy.Pause) {
	active := make(map[policy.Scope]policy.Pause, len(stored))
	for _, pause := range stored {
		active[pause.Scope] = pause
	}
	p.table.Store(&pauseTable{active: active})
}

// Put activates and records a pause.
func (p *Pauses) Put(pause policy.Pause, to *Recorder) *Commit {
	p.mu.Lock()
	defer p.mu.Unlock()
	before := p.table.Load()
	active := maps.Clone(before.active)
	active[pause.Scope] = pause
	p.table.Store(&pauseTable{active, before.ended})
	return to.pause(map[policy.Scope]*policy.Pause{pause.Scope: &pause})
}

// End ends all pauses that ends selects, and records the change. ends also returns the
// message for each ended pause. The commit is nil if no pause ends.
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
			endings[scope], changes[scope] = ending{now, message}, nil
			ended = append(ended, pause)
		}
	}
	if ended == nil {
		return nil, nil
	}
	p.table.Store(&pauseTable{active, endings})
	return ended, to.pause(changes)
}

// EndDue ends expired pauses, and the pauses of breakers that are no longer configured.
func (p *Pauses) EndDue(now time.Time, to *Recorder, hasBreaker func(fleet string) bool) (ended []policy.Pause) {
	gone := func(pause policy.Pause) bool { return pause.Breaker && !hasBreaker(pause.Fleet) }
	due := func(pause policy.Pause) bool { return gone(pause) || pause.Ended(now) }
	if !slices.ContainsFunc(slices.Collect(maps.Values(p.Active())), due) {
		return nil
	}
	ended, _ = p.End(now, to, func(pause policy.Pause) (string, bool) {
		message := "the pause has ended"
		if gone(pause) {
			message = "the fleet no longer has a breaker"
		} else if pause.Breaker {
			message = "the breaker's window has ended"
		}
		return message, due(pause)
	})
	return ended
}

// Active returns the pauses by scope. The result can include expired pauses.
func (p *Pauses) Active() map[policy.Scope]policy.Pause { return p.table.Load().active }

// Of returns the active pauses of an autoscaler, widest scope first, and the message of the last
// pause that ended. Both can be empty.
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

// PauseText describes a pause, with its end in wall-clock time.
func PauseText(pause *policy.Pause, scale *clock.Scale) string {
	var text strings.Builder
	if pause.Breaker {
		return fmt.Sprintf("the breaker of fleet %q has paused scale-downs since %s until %s: %s (to resume, run hpad resume --fleet %s)",
			pause.Fleet, scale.Wall(pause.Since).Format(time.RFC3339), scale.Wall(pause.Until).Format(time.RFC3339), pause.Reason, pause.Fleet)
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

// ComparePauses orders pauses by scope, widest first. A pause by a fleet's breaker comes after the
// fleet's own pause.
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
