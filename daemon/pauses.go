package daemon

import (
	"cmp"
	"fmt"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets/clock"
)

// pauses are what people paused. It is safe for concurrent use.
type pauses struct {
	// mu is held while table is replaced and the recorder is told, so that both have the
	// same last; a table is never changed.
	mu    sync.Mutex
	table atomic.Pointer[pauseTable]
}

// pauseTable has the pauses in force, with times of the daemon's own clock.
type pauseTable struct {
	inForce map[policy.Scope]policy.Pause
	// ended are those that ended within endingsKept.
	ended map[policy.Scope]ending
	// next is when the first of them ends by itself; zero when none does.
	next time.Time
	// breakers are the fleets whose breaker holds.
	breakers []string
}

// ending is how a pause ended.
type ending struct {
	at      time.Time
	message string
	pause   policy.Pause
}

// endingsKept is for how long it is known how a pause ended: longer than any sync period,
// so that each pass that the pause held finds out.
const endingsKept = 2 * time.Hour

// newPauseTable returns the table of pauses.
func newPauseTable(inForce map[policy.Scope]policy.Pause, ended map[policy.Scope]ending) *pauseTable {
	t := &pauseTable{inForce: inForce, ended: ended}
	for _, pause := range inForce {
		if !pause.Until.IsZero() && (t.next.IsZero() || pause.Until.Before(t.next)) {
			t.next = pause.Until
		}
		if pause.Breaker {
			t.breakers = append(t.breakers, pause.Fleet)
		}
	}
	return t
}

// recall puts the pauses in force that the state has.
func (p *pauses) recall(kept []policy.Pause) {
	inForce := make(map[policy.Scope]policy.Pause, len(kept))
	for _, pause := range kept {
		inForce[pause.Scope] = pause
	}
	p.table.Store(newPauseTable(inForce, nil))
}

// put puts a pause in force, and has it recorded.
func (p *pauses) put(pause policy.Pause, to *recorder) *commit {
	p.mu.Lock()
	defer p.mu.Unlock()
	before := p.table.Load()
	inForce := maps.Clone(before.inForce)
	inForce[pause.Scope] = pause
	p.table.Store(newPauseTable(inForce, before.ended))
	return to.pause(map[policy.Scope]*policy.Pause{pause.Scope: &pause})
}

// end ends those pauses of which how returns what is to be said of it, returns them, and
// has that recorded; there is no commit where none ends.
func (p *pauses) end(now time.Time, to *recorder, how func(policy.Pause) (message string, ends bool)) (ended []policy.Pause, kept *commit) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before := p.table.Load()
	inForce, endings, changes := maps.Clone(before.inForce), map[policy.Scope]ending{}, map[policy.Scope]*policy.Pause{}
	for scope, earlier := range before.ended {
		if now.Sub(earlier.at) < endingsKept {
			endings[scope] = earlier
		}
	}
	for scope, pause := range before.inForce {
		if message, ends := how(pause); ends {
			delete(inForce, scope)
			endings[scope], changes[scope] = ending{now, message, pause}, nil
			ended = append(ended, pause)
		}
	}
	if ended == nil {
		return nil, nil
	}
	p.table.Store(newPauseTable(inForce, endings))
	return ended, to.pause(changes)
}

// of returns the pauses that bear on an autoscaler at now, the widest first, and how the
// last one ended that did; empty where that is not known.
func (p *pauses) of(name, fleet string, now time.Time, scale *clock.Scale) (inForce []policy.Pause, resumed string) {
	table := p.table.Load()
	if len(table.inForce) == 0 && len(table.ended) == 0 {
		return nil, ""
	}
	var last ending
	for _, scope := range [...]policy.Scope{{}, {Fleet: fleet}, {Fleet: fleet, Breaker: true}, {Autoscaler: name}} {
		pause, ok := table.inForce[scope]
		if ok && !pause.Ended(now) {
			pause.Message = pauseText(&pause, scale)
			inForce = append(inForce, pause)
		}
		if ended := table.ended[scope]; ended.at.After(last.at) {
			last = ended
		}
	}
	return inForce, last.message
}

// pauseText says in words what is paused, with its end by the wall clock.
func pauseText(pause *policy.Pause, scale *clock.Scale) string {
	var text strings.Builder
	if pause.Breaker {
		fmt.Fprintf(&text, "the breaker of fleet %q holds all scale-downs since %s", pause.Fleet, scale.Wall(pause.Since).Format(time.RFC3339))
		if pause.Renews {
			text.WriteString(", for as long as so many are asked for")
		} else {
			text.WriteString(" until " + scale.Wall(pause.Until).Format(time.RFC3339))
		}
		fmt.Fprintf(&text, ": %s (hpad resume --fleet %s lets them go)", pause.Reason, pause.Fleet)
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

// ComparePauses orders pauses, the widest first, and what a fleet's breaker holds after
// what a person paused of it.
func ComparePauses(a, b policy.Pause) int {
	order := cmp.Or(strings.Compare(a.Autoscaler, b.Autoscaler), strings.Compare(a.Fleet, b.Fleet))
	if order == 0 && a.Breaker != b.Breaker {
		return map[bool]int{false: -1, true: 1}[a.Breaker]
	}
	return order
}

func pauseFields(scope policy.Scope, author string) []zap.Field {
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
