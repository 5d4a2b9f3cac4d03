package compose

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/client"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/restart"
)

// Compose leaves a container that has failed as it is, and so does the engine once its
// restart policy is exhausted; it goes on counting, and does nothing. hpad does for it
// what the kubelet and a ReplicaSet do for a pod: it starts it again, less and less
// often, and makes a new one where that does not help.

const (
	revivalPrefix = "failed/"
	// mostStarts is the number of starts before hpad replaces a container.
	mostStarts = 5
)

var backoff = restart.Backoff{First: 10 * time.Second, Longest: 5 * time.Minute, Reset: 10 * time.Minute}

// revival is the stored record of a container that has failed.
type revival struct {
	restart.State
	// Ended is the time of its last end, by the engine's clock, and Cause a description.
	Ended time.Time `json:"ended"`
	Cause string    `json:"cause"`
	// Failure is the error of the last start; "" if it succeeded.
	Failure string `json:"failure,omitempty"`
	// Instead is the name of the container that it replaces; "" for none.
	Instead string `json:"instead,omitempty"`
}

// failed returns the record after a reading in which the container has failed.
func (r revival) failed(d *detail, now time.Time) revival {
	if r.Since.After(now) { // made by a clock that was ahead: it counts as made now
		r.Since = now
	}
	if r.Wait > 0 && r.Ended.Equal(d.finished) {
		return r
	}
	next := revival{State: backoff.Failed(r.State, d.finished.Sub(d.started), now), Ended: d.finished, Cause: d.ended()}
	if next.Wait > backoff.First {
		next.Instead = r.Instead
	}
	return next
}

// exhausted reports whether the next try makes a new container.
func (r revival) exhausted() bool { return r.Starts >= mostStarts }

// plan returns what hpad does about a container that has failed.
func (r revival) plan() string {
	does := "starts it again"
	if r.exhausted() {
		does = "makes a new one"
	}
	text := fmt.Sprintf(", hpad %s %v after that", does, r.Wait)
	if r.Failure != "" {
		text += " (the last try failed: " + r.Failure + ")"
	}
	return text
}

// revivals are those of all services. They are safe for concurrent use.
type revivals struct {
	byContainer[revival]
	now func() time.Time
}

// newRevivals returns revivals that measure waits by now; nil means time.Now.
func newRevivals(store targets.Store, now func() time.Time) *revivals {
	if now == nil {
		now = time.Now
	}
	return &revivals{byContainer: newByContainer[revival](store, revivalPrefix), now: now}
}

// load reads what was stored, in place of what is known, but for what is of no use any
// more.
func (r *revivals) load(ctx context.Context) error {
	if err := r.Load(ctx); err != nil {
		return err
	}
	for _, k := range r.services() {
		r.change(ctx, k, func(all map[string]revival) {
			maps.DeleteFunc(all, func(_ string, one revival) bool { return r.now().Sub(one.Since) > forgottenAfter })
		})
	}
	return nil
}

// enter enters how a service's containers are.
func (r *revivals) enter(ctx context.Context, k key, members []*member, known map[string]*detail, now time.Time) {
	r.change(ctx, k, func(all map[string]revival) {
		there := map[string]bool{}
		for _, m := range members {
			there[m.ID] = !m.doomed
			d := known[m.ID]
			if d == nil || d.pending {
				continue
			}
			one, ok := all[m.ID]
			switch {
			case d.end == endFailed:
				all[m.ID] = one.failed(d, now)
			case d.end == endStopped || ok && m.runs() && backoff.Recovered(one.State, now):
				delete(all, m.ID)
			}
		}
		maps.DeleteFunc(all, func(id string, _ revival) bool { return !there[id] })
	})
}

// try stores that hpad starts or replaces a container, and returns the state before; false
// if its wait is not over.
func (r *revivals) try(ctx context.Context, k key, id string, now time.Time) (before revival, due bool) {
	r.change(ctx, k, func(all map[string]revival) {
		one, ok := all[id]
		before = one
		if due = ok && one.Due(now); due {
			one.State, one.Failure = backoff.Started(one.State, now), ""
			all[id] = one
		}
	})
	return before, due
}

func (r *revivals) fail(ctx context.Context, k key, id string, err error) {
	r.change(ctx, k, func(all map[string]revival) {
		one := all[id]
		one.Failure = err.Error()
		all[id] = one
	})
}

// revive starts or replaces, in the background, failed containers of a service after their
// back-off, and replaces obsolete replicas. It changes nothing while the service is held.
func (f *Fleet) revive(ctx context.Context, k key, members []*member, known map[string]*detail, l *listing, held bool) {
	now := f.revivals.now()
	if f.dryRun {
		return
	}
	if *cmp.Or(f.config.Services[k.String()].ReplaceFailed, f.config.ReplaceFailed) {
		f.revivals.enter(ctx, k, members, known, now)
	} else {
		f.revivals.change(ctx, k, func(all map[string]revival) { clear(all) })
	}
	due := map[string]bool{}
	all := f.revivals.of(k)
	for _, m := range counted(members) {
		one, failed := all[m.ID]
		if d := known[m.ID]; d != nil && d.end == endFailed && failed && one.Due(now) {
			due[m.ID] = true
		}
	}
	renew := len(obsolete(members)) > 0 && f.isQuiet(members, l.observed) && f.unreplaced.over(k, l.observed)
	if len(due) == 0 && !renew || held || f.running() != nil {
		return
	}
	end, ok := f.turnNow(k)
	if !ok {
		return // the next reading comes back to it
	}
	if f.inBackground(func() {
		defer end()
		f.reviveInTurn(k, due, renew)
	}) != nil {
		end()
	}
}

// reviveInTurn does this in the service's turn. A later reading repeats it after an error.
func (f *Fleet) reviveInTurn(k key, due map[string]bool, renew bool) {
	l, err := f.list(f.ctx, k.project)
	if err != nil {
		return
	}
	o := newOrder(k, l, len(counted(l.services[k])))
	if hold(k, o.members) != nil {
		return
	}
	if renew {
		f.unreplaced.set(k, f.replaceObsolete(o), l.observed)
	}
	failed := slices.DeleteFunc(slices.Clone(o.living), func(m *member) bool { return !due[m.ID] || !f.hasFailed(m) })
	var old []*member
	for _, m := range withoutSpare(o, failed) {
		before, due := f.revivals.try(f.ctx, k, m.ID, f.revivals.now())
		switch {
		case !due: // it failed again since it was started
		case before.exhausted():
			old = append(old, m)
		default:
			if err := f.startAgain(m); err != nil {
				f.revivals.fail(f.ctx, k, m.ID, err)
			}
		}
	}
	if len(old) > 0 {
		f.replaceFailed(o, old)
	}
}

// hasFailed inspects whether a container is still one that has failed.
func (f *Fleet) hasFailed(m *member) bool {
	inspected, err := f.inspect(f.ctx, m.ID)
	if err != nil || inspected == nil {
		return false
	}
	how, _, _ := f.endOf(m, inspected)
	return how == endFailed
}

// startAgain starts a container that has failed, when no other is being started.
func (f *Fleet) startAgain(m *member) error {
	if err := f.starts.Acquire(f.ctx, 1); err != nil {
		return err
	}
	defer f.starts.Release(1)
	err := f.call(func(ctx context.Context, c *client.Client) error {
		return c.ContainerStart(ctx, m.ID, container.StartOptions{})
	})
	f.details.drop(m.ID)
	if isNotFound(err) {
		return nil // it was removed meanwhile
	}
	return err
}

// replaceFailed creates a new container for each that has failed too often. The new one
// inherits the back-off.
func (f *Fleet) replaceFailed(o *order, old []*member) {
	made := map[string]bool{}
	err := f.replace(o, old, func(m *member, id string) {
		made[m.ID] = true
		f.revivals.change(f.ctx, o.key, func(all map[string]revival) {
			before := all[m.ID]
			all[id] = revival{State: restart.State{Since: before.Since, Wait: before.Wait}, Cause: before.Cause, Instead: m.name}
		})
	})
	for _, m := range old {
		if err != nil && !made[m.ID] {
			f.revivals.fail(f.ctx, o.key, m.ID, err)
		}
	}
}

// revived returns which containers hpad has started again, and which it has made in the
// place of others, until they have run for long enough.
func revived(living []*member, all map[string]revival) []policy.Notice {
	var started, made []string
	for _, m := range living {
		one := all[m.ID]
		if one.Starts > 0 {
			started = append(started, fmt.Sprintf("%s %s and was started again, %d times so far", m.name, one.Cause, one.Starts))
		}
		if one.Instead != "" {
			made = append(made, fmt.Sprintf("%s is in the place of %s, which %s time and again", m.name, one.Instead, one.Cause))
		}
	}
	var notices []policy.Notice
	if len(started) > 0 {
		notices = append(notices, policy.Notice{Condition: ContainersRestarted, Reason: "StartedAgain", Message: "hpad starts containers again that have failed: " + shortened(started)})
	}
	if len(made) > 0 {
		notices = append(notices, policy.Notice{Condition: ContainersReplaced, Reason: "FailedTooOften", Message: "hpad has made new containers: " + shortened(made)})
	}
	return notices
}

// shortened joins texts about containers, of many the first.
func shortened(told []string) string {
	const most = 3
	slices.Sort(told)
	if len(told) > most {
		told = append(told[:most:most], "and more")
	}
	return strings.Join(told, "; ")
}
