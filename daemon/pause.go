package daemon

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"

	"go.uber.org/zap"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/evidence"
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

// longestReason bounds the reason that a person gives, in bytes: it is shown wherever the
// autoscaler is.
const longestReason = 500

// Pause puts a pause in force, in the place of an earlier one of its scope, for so long
// or, if that is 0, until somebody resumes. An empty direction is both. The pause's
// Since, Until and Message are not looked at.
//
// Once it returns nil no pass that begins writes what the pause holds, also after a
// crash; a write that is under way is not taken back. With an error that is an
// api.ErrUnknown or an api.ErrRefused nothing was done; with another one the pause is in
// force and could not be kept in the state yet.
func (d *Daemon) Pause(ctx context.Context, pause policy.Pause, lasts time.Duration) error {
	if err := d.awaitRunning(ctx); err != nil {
		return err
	}
	if pause.Direction == "" {
		pause.Direction = policy.BothDirections
	}
	if err := d.checkPause(&pause, lasts); err != nil {
		return err
	}
	pause.Message, pause.Since, pause.Until = "", d.clock.Now(), time.Time{}
	if lasts > 0 {
		pause.Until = pause.Since.Add(lasts)
	}
	commit := d.pauses.put(pause, d.recorder)
	d.log.Info("paused", append(pauseFields(pause.Scope, pause.Author), zap.String("direction", string(pause.Direction)),
		zap.String("reason", pause.Reason), lastsField(lasts))...)
	err := awaitKept(ctx, pause.Scope, commit)
	d.evaluateScope(pause.Scope)
	return err
}

// lastsField is for how long a pause is, where it ends by itself.
func lastsField(lasts time.Duration) zap.Field {
	if lasts == 0 {
		return zap.Skip()
	}
	return zap.Duration("for", lasts)
}

// awaitRunning returns once the configuration and the state are in force that a person's
// act is about.
func (d *Daemon) awaitRunning(ctx context.Context) error {
	select {
	case <-d.running:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if d.runContext.Err() != nil {
		return errStopping
	}
	return nil
}

func (d *Daemon) checkPause(pause *policy.Pause, lasts time.Duration) error {
	switch {
	case pause.Breaker:
		return fmt.Errorf("%w: nobody but the breaker holds for it", api.ErrRefused)
	case pause.Autoscaler != "" && pause.Fleet != "":
		return fmt.Errorf("%w: a pause is of an autoscaler, of a fleet or of all", api.ErrRefused)
	case !d.current.Load().has(pause.Scope):
		return fmt.Errorf("%s: %w", pause.Scope, api.ErrUnknown)
	case !slices.Contains([]policy.Direction{policy.Up, policy.Down, policy.BothDirections}, pause.Direction):
		return fmt.Errorf("%w: direction = %q: must be up, down or both", api.ErrRefused, pause.Direction)
	case lasts < 0:
		return fmt.Errorf("%w: a pause of %s: must be longer than 0s", api.ErrRefused, lasts)
	case len(pause.Reason) > longestReason:
		return fmt.Errorf("%w: the reason has %d bytes and may have %d", api.ErrRefused, len(pause.Reason), longestReason)
	case strings.ContainsFunc(pause.Reason, unicode.IsControl):
		return fmt.Errorf("%w: the reason has a line break or another control character, and must be one line", api.ErrRefused)
	}
	return nil
}

// Resume ends the pause of a scope, and returns it. Of a fleet that nobody paused it ends
// what its breaker holds, which then holds nothing for its window; of one that somebody
// paused the breaker goes on. Pauses of other scopes stay in force: the message of the
// pause names those that hold the same autoscalers. The error is an api.ErrNotPaused where
// there is none, and an api.ErrUnknown where there is no such scope either; with another
// one the pause is over and that could not be kept in the state yet.
func (d *Daemon) Resume(ctx context.Context, scope policy.Scope, author string) (policy.Pause, error) {
	if err := d.awaitRunning(ctx); err != nil {
		return policy.Pause{}, err
	}
	message := "resumed"
	if author != "" {
		message += " by " + author
	}
	inForce, now := d.pauses.table.Load().inForce, d.clock.Now()
	var waived time.Time
	ends, breaker := scope, policy.Scope{Fleet: scope.Fleet, Breaker: true}
	own, paused := inForce[scope]
	held, open := inForce[breaker]
	if open && scope.Fleet != "" && !held.Ended(now) && (!paused || own.Ended(now)) {
		ends = breaker
		waived = d.waiveBreaker(scope.Fleet) // first, so that no round opens it again
	}
	ended, commit := d.pauses.end(now, d.recorder, func(pause policy.Pause) (string, bool) {
		return message, pause.Scope == ends
	})
	if len(ended) == 0 {
		return policy.Pause{}, d.notPaused(scope)
	}
	d.log.Info("resumed", pauseFields(scope, author)...)
	err := awaitKept(ctx, scope, commit)
	d.evaluateScope(scope)
	scale := d.clock.Scale()
	ended[0].Message = pauseText(&ended[0], scale)
	if ends.Breaker {
		ended[0].Message += "; it holds nothing until " + scale.Wall(waived).Format(time.RFC3339)
	}
	if others := d.wider(ends); others != "" {
		ended[0].Message += "; still in force, until it is resumed as well: " + others
	}
	return pauseShownBy(scale, ended[0]), err
}

// wider says which pauses of wider scopes hold what is in a scope; empty without any.
func (d *Daemon) wider(scope policy.Scope) string {
	fleet := scope.Fleet
	if a := d.current.Load().autoscalers[scope.Autoscaler]; a != nil {
		fleet = a.definition.Load().Target.Fleet
	}
	var texts []string
	for _, pause := range d.Pauses() {
		if scope != (policy.Scope{}) && pause.Scope != scope && pause.Autoscaler == "" && (pause.Fleet == "" || pause.Fleet == fleet) {
			texts = append(texts, pause.Message)
		}
	}
	return strings.Join(texts, "; and: ")
}

// notPaused is the error of a scope without a pause, which names what pauses it all the
// same.
func (d *Daemon) notPaused(scope policy.Scope) error {
	if !d.current.Load().has(scope) {
		return fmt.Errorf("%s: %w", scope, api.ErrUnknown)
	}
	if others := d.wider(scope); others != "" {
		return fmt.Errorf("%s: %w by itself, but: %s", scope, api.ErrNotPaused, others)
	}
	return fmt.Errorf("%s: %w", scope, api.ErrNotPaused)
}

// has reports whether there is what an act is about.
func (g *generation) has(scope policy.Scope) bool {
	return (scope.Autoscaler == "" || g.autoscalers[scope.Autoscaler] != nil) && (scope.Fleet == "" || g.Fleets[scope.Fleet] != nil)
}

// Pauses returns all pauses in force, the widest first, with times and words by the wall
// clock.
func (s *status) Pauses() []policy.Pause {
	scale, now := s.clock.Scale(), s.clock.Now()
	var all []policy.Pause
	for _, pause := range s.pauses.table.Load().inForce {
		if !pause.Ended(now) {
			pause.Message = pauseText(&pause, scale)
			all = append(all, pauseShownBy(scale, pause))
		}
	}
	slices.SortFunc(all, ComparePauses)
	return all
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

// awaitKept returns once what became of the pause of a scope is in the state.
func awaitKept(ctx context.Context, scope policy.Scope, commit *commit) error {
	var err error
	select {
	case <-commit.done:
		err = commit.err
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("%s: done, and not in the state yet, so that a restart may forget it: %w", scope, err)
	}
	return nil
}

// evaluateScope has the one autoscaler of a scope evaluated at once; those of wider ones
// are at their ticks.
func (d *Daemon) evaluateScope(scope policy.Scope) {
	if scope.Autoscaler != "" {
		d.evaluate(scope.Autoscaler)
	}
}

// endPauses ends the pauses whose time is over, and what the breakers hold of fleets that
// have none any more. The scheduler calls it each time it wakes.
func (f *inForce) endPauses(now time.Time) {
	fleets, table := f.current.Load().config.Fleets, f.pauses.table.Load()
	gone := func(fleet string) bool { return fleets[fleet].Breaker == nil }
	if (table.next.IsZero() || now.Before(table.next)) && !slices.ContainsFunc(table.breakers, gone) {
		return
	}
	ended, _ := f.pauses.end(now, f.recorder, func(pause policy.Pause) (string, bool) {
		if pause.Breaker && gone(pause.Fleet) {
			return "the fleet has no breaker any more", true
		}
		if pause.Breaker {
			return "the breaker's window is over", pause.Ended(now)
		}
		return "the pause is over", pause.Ended(now)
	})
	for _, pause := range ended {
		f.log.Info("a pause is over", pauseFields(pause.Scope, pause.Author)...)
	}
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

// pauseShownBy returns a pause with its times as the wall clock has them.
func pauseShownBy(scale *clock.Scale, pause policy.Pause) policy.Pause {
	pause.Since, pause.Until = scale.Wall(pause.Since), scale.Wall(pause.Until)
	return pause
}

func pausesShownBy(scale *clock.Scale, pauses []policy.Pause) []policy.Pause {
	shown := slices.Clone(pauses)
	for i := range shown {
		shown[i] = pauseShownBy(scale, shown[i])
	}
	return shown
}

// pausedMeanwhile has a decision not be carried out that a pause holds which began after
// it was made, and reports whether there is one.
func (p *pass) pausedMeanwhile(decision *policy.Decision) bool {
	inForce, _ := p.pauses.of(p.autoscaler.name, p.definition.Target.Fleet, p.clock.Now(), p.clock.Scale())
	if !decision.HoldBy(inForce, p.now) {
		return false
	}
	p.packed = evidence.HeldBy(p.packed, inForce)
	return true
}
