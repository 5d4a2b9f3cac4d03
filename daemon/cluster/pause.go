package cluster

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/hpad/hpad/daemon"
	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/problem"
	"github.com/hpad/hpad/daemon/records"
	"github.com/hpad/hpad/guard"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets/clock"
)

// pauseMark is stored like the configuration of a fleet, under a name that no fleet can have. Its
// value is the last command, as JSON.
const pauseMark = ".pause"

// command pauses or resumes all autoscalers. Each member applies the last command in the coordinator
// to its daemons, and publishes its ID. The daemons also store the pause, so that it lasts while the
// coordinator is unreachable.
type command struct {
	ID     string `json:"id"`
	Author string `json:"author,omitempty"`
	// Pause begins at Since on the wall clock. If it is nil, the command resumes the autoscalers.
	Pause *policy.Pause `json:"pause,omitempty"`
	// For is the length of the pause; 0 means until it is resumed.
	For time.Duration `json:"for,omitempty"`
	// ends is the end of the pause on Go's monotonic clock, or zero if it has none.
	ends time.Time
}

// commandIn returns the last command in a view. Its ID is empty if there is none. unread is the time
// since the previous view, which did not contain a new command. The wall clocks of the members may
// differ, so this member assumes that the command is not older than unread.
func commandIn(view View, unread time.Duration) (last command, err error) {
	text := view.Fleets[pauseMark].Configuration
	if text == "" {
		return last, nil
	}
	if err = json.Unmarshal([]byte(text), &last); err != nil {
		return command{}, fmt.Errorf("decode the pause of all autoscalers in the cluster store: %w", err)
	}
	if last.Pause != nil && last.For > 0 {
		left := max(time.Until(last.Pause.Since.Add(last.For)), last.For-unread)
		last.ends = time.Now().Add(min(left, last.For))
	}
	return last, nil
}

// active returns the command's pause with its end on the wall clock, or nil if it has ended or the
// command resumes. left is the time until the end, or 0 if it has none.
func (c *command) active() (pause *policy.Pause, left time.Duration) {
	if c.Pause == nil {
		return nil, 0
	}
	found := *c.Pause
	if !c.ends.IsZero() {
		if left = time.Until(c.ends); left <= 0 {
			return nil, 0
		}
		found.Until = time.Now().Add(left).UTC()
	}
	return &found, left
}

// apply applies the command to a daemon. It returns nil for a daemon that cannot store the change or is
// handing over its fleet: the change is active, and the coordinator has the command.
func (c *command) apply(ctx context.Context, d *daemon.Daemon) (err error) {
	all := d.Pauses()
	i := slices.IndexFunc(all, func(p policy.Pause) bool { return p.Scope == policy.Scope{} })
	want, left := c.active()
	switch {
	case c.Pause == nil && i >= 0:
		_, err = d.Resume(ctx, policy.Scope{}, c.Author)
	case want != nil && (i < 0 || !isSame(all[i], *want)):
		_, err = d.Pause(ctx, *want, left)
	}
	if errors.Is(err, api.ErrNotPaused) || errors.Is(err, api.ErrUnstored) || errors.Is(err, api.ErrMoving) {
		return nil
	}
	return err
}

// isSame compares two pauses except their starts. The ends may differ slightly, because a daemon that
// has loaded its pause measures the time itself.
func isSame(a, b policy.Pause) bool {
	return a.Direction == b.Direction && a.Reason == b.Reason && a.Author == b.Author &&
		a.Until.IsZero() == b.Until.IsZero() && a.Until.Sub(b.Until).Abs() <= allowedSkew
}

// commands applies the last command to this member's daemons.
type commands struct {
	// viewed contains an element if the view has been read since the last call of applyLast.
	viewed chan struct{}
	// failed is set if the last command could not be applied to a daemon.
	failed problem.Problem
	// confirmed is the ID of the last command that all daemons of this member have applied.
	confirmed atomic.Value
	// applied maps the daemons to the ID of the last command that they have applied. Only the goroutine
	// of applyCommands uses it.
	applied map[*daemon.Daemon]string
}

// lastConfirmed returns the ID of the last command that all daemons of this member have applied, or "".
func (c *commands) lastConfirmed() string {
	id, _ := c.confirmed.Load().(string)
	return id
}

// lastCommand returns the last command in the view, or the error of decoding it.
func (c *Cluster) lastCommand() (command, error) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.command, c.undecoded
}

// applyCommands applies the last command whenever the view has been read. It has its own goroutine,
// because a daemon's disk can hang.
func (c *Cluster) applyCommands(ctx context.Context) {
	for {
		select {
		case <-c.commands.viewed:
		case <-ctx.Done():
			return
		}
		err := c.applyLast(ctx)
		if news, fields := c.commands.failed.Set(err); news && err != nil && ctx.Err() == nil {
			c.log.Error("pause or resumption of all autoscalers failed", append(fields, zap.NamedError("err", err))...)
		}
	}
}

// applyLast applies the last command to the daemons of this member that have not applied it, and then
// confirms it. Later daemons start with its pause.
func (c *Cluster) applyLast(ctx context.Context) error {
	last, err := c.lastCommand()
	if err != nil || last.ID == "" {
		return err
	}
	daemons := c.daemons()
	waiting := slices.DeleteFunc(slices.Clone(daemons), func(d *daemon.Daemon) bool { return c.commands.applied[d] == last.ID })
	errs := guard.Each(len(waiting), waiting, func(_ int, d *daemon.Daemon) error {
		call, cancel := c.call(ctx)
		defer cancel()
		return last.apply(call, d)
	})
	err = cmp.Or(errs...)
	for i, d := range waiting {
		if errs[i] == nil {
			c.commands.applied[d] = last.ID
		}
	}
	maps.DeleteFunc(c.commands.applied, func(d *daemon.Daemon, _ string) bool { return !slices.Contains(daemons, d) })
	if err == nil && c.commands.confirmed.Swap(last.ID) != last.ID {
		c.updateSoon()
		c.forgetLists()
	}
	return err
}

// hasAppliedLast reports whether all daemons of this member have applied the last command.
func (c *Cluster) hasAppliedLast() bool {
	last, err := c.lastCommand()
	return err == nil && (last.ID == "" || last.ID == c.commands.lastConfirmed())
}

// pauseAtStart returns the pause with which the daemon of a shared fleet starts, or nil.
func (c *Cluster) pauseAtStart() *policy.Pause {
	last, _ := c.lastCommand() // applyLast reports the error
	pause, _ := last.active()
	return pause
}

// viewForCommand reads the view before a command. The error is an [api.ErrRefused].
func (c *Cluster) viewForCommand(ctx context.Context) (View, error) {
	view, err := c.viewNow(ctx)
	if err == nil && isImporting(view) {
		err = errImporting
	}
	if err != nil {
		err = fmt.Errorf("%w: %w (to pause or resume a fleet of this host, use --fleet)", api.ErrRefused, err)
	}
	return view, err
}

// issue writes a command to the coordinator, and waits up to [api.TakeoverWait] until all members
// have applied it. The members in view are those before the command. A member that is cut off applies
// the command when it reaches the coordinator again.
func (c *Cluster) issue(ctx context.Context, view View, next command) error {
	defer c.forgetLists()
	ctx, cancel := context.WithTimeout(ctx, api.TakeoverWait)
	defer cancel()
	next.ID = rand.Text()
	text, err := json.Marshal(next)
	if err == nil {
		call, cancel := c.call(ctx)
		err = c.options.Coordinator.Configure(call, pauseMark, string(text), "")
		cancel()
	}
	if err != nil {
		return fmt.Errorf("%w: %w", api.ErrUnknownOutcome, err)
	}
	return c.awaitApplied(ctx, next.ID, view)
}

// awaitApplied waits until all members of the view, and all later members, have applied a command, or
// until another command replaces it. It adds a warning for each member that leaves without applying it.
func (c *Cluster) awaitApplied(ctx context.Context, id string, view View) error {
	before, _ := commandIn(view, 0)
	for {
		waiting := slices.DeleteFunc(slices.Sorted(maps.Keys(view.Members)), func(name string) bool { return view.Members[name].Command == id })
		if len(waiting) == 0 {
			return nil
		}
		c.updateSoon()
		select {
		case <-time.After(api.TakeoverInterval):
		case <-ctx.Done():
			return fmt.Errorf("%w: the change is stored, but members have not confirmed it: %s (check that they respond, and that they have the version of %s)",
				api.ErrUnknownOutcome, strings.Join(waiting, ", "), c.options.Member.Name)
		}
		next, err := c.viewNow(ctx)
		if err != nil {
			continue
		}
		if last, _ := commandIn(next, 0); last.ID != id && last.ID != before.ID {
			return fmt.Errorf("%w: a later pause or resumption of all autoscalers by %s replaces this one", api.ErrRefused, cmp.Or(last.Author, "an unknown user"))
		}
		for _, name := range waiting {
			if _, is := next.Members[name]; !is {
				api.Warn(ctx, fmt.Sprintf("member %s left the cluster before it confirmed the change; if it is cut off, it applies the change when it reaches the cluster store again", name))
			}
		}
		view = next
	}
}

// Pause implements [api.Daemon].
func (v *clusterView) Pause(ctx context.Context, pause policy.Pause, lasts time.Duration) (policy.Pause, error) {
	if pause.Scope != (policy.Scope{}) {
		return change(ctx, v, pause.Scope, func(d *daemon.Daemon) (policy.Pause, error) { return d.Pause(ctx, pause, lasts) })
	}
	if err := v.own.CheckPause(&pause, lasts); err != nil {
		return policy.Pause{}, err
	}
	view, err := v.viewForCommand(ctx)
	if err != nil {
		return policy.Pause{}, err
	}
	pause.Since = time.Now().UTC()
	written := pause
	err = v.issue(ctx, view, command{Author: pause.Author, Pause: &written, For: lasts})
	if lasts > 0 {
		pause.Until = pause.Since.Add(lasts)
	}
	pause.Message = records.PauseText(&pause, new(clock.Scale))
	return pause, err
}

// Resume implements [api.Daemon].
func (v *clusterView) Resume(ctx context.Context, scope policy.Scope, author string) (policy.Pause, error) {
	if scope != (policy.Scope{}) {
		return change(ctx, v, scope, func(d *daemon.Daemon) (policy.Pause, error) { return d.Resume(ctx, scope, author) })
	}
	view, err := v.viewForCommand(ctx)
	if err != nil {
		return policy.Pause{}, err
	}
	pauses := v.Pauses()
	i := slices.IndexFunc(pauses, func(p policy.Pause) bool { return p.Scope == scope })
	if i < 0 {
		return policy.Pause{}, fmt.Errorf("%s: %w", scope, api.ErrNotPaused)
	}
	return pauses[i], v.issue(ctx, view, command{Author: author})
}
