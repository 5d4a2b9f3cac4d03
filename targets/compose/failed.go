package compose

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/client"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/restart"
)

// Compose does not restart a failed container, and neither does the engine once its restart
// policy is exhausted, but the container is still part of the replica count. hpad acts like the
// kubelet and a ReplicaSet: it restarts the container with increasing delays, and replaces it
// if that does not help.

// maxRestarts is the number of restarts before hpad replaces a container.
const maxRestarts = 5

var backoff = restart.Backoff{First: 10 * time.Second, Longest: 5 * time.Minute, Reset: 10 * time.Minute}

// failure is the stored record of a failed container.
type failure struct {
	restart.State
	// Ended is the time of its last end, according to the engine's clock, and Cause describes
	// it.
	Ended time.Time `json:"ended"`
	Cause string    `json:"cause"`
	// StartError is the error of the last start, or "" if it succeeded.
	StartError string `json:"failure,omitempty"`
	// Replaces is the name of the container that this container replaces, or "".
	Replaces string `json:"instead,omitempty"`
}

// again returns the record after a further reading of a failed container.
func (r failure) again(d *detail, now time.Time) failure {
	if r.Since.After(now) { // the clock was set back: treat the failure as if it happened now
		r.Since = now
	}
	if r.Wait > 0 && r.Ended.Equal(d.finished) {
		return r
	}
	next := failure{State: backoff.Failed(r.State, d.finished.Sub(d.started), now), Ended: d.finished, Cause: d.ended()}
	if next.Wait > backoff.First {
		next.Replaces = r.Replaces
	}
	return next
}

// exhausted reports whether hpad replaces the container instead of restarting it.
func (r failure) exhausted() bool { return r.Starts >= maxRestarts }

// plan describes the next action of hpad.
func (r failure) plan() string {
	action := "starts it again"
	if r.exhausted() {
		action = "replaces it"
	}
	text := fmt.Sprintf(", hpad %s %v later", action, r.Wait)
	if r.StartError != "" {
		text += " (the last try failed: " + r.StartError + ")"
	}
	return text
}

// updateFailures changes the failure records of a service.
func (s *store) updateFailures(ctx context.Context, k key, change func(all map[string]failure)) {
	s.update(ctx, k, func(r *serviceRecord) { r.Failed = edited(r.Failed, change) })
}

// observeFailures updates the failure records after a reading.
func (s *store) observeFailures(ctx context.Context, k key, members []*member, known map[string]*detail, now time.Time) {
	s.updateFailures(ctx, k, func(all map[string]failure) {
		exists := map[string]bool{}
		for _, m := range members {
			exists[m.ID] = !m.doomed
			d := known[m.ID]
			if d == nil || d.pending {
				continue
			}
			before, ok := all[m.ID]
			switch {
			case d.end == endFailed:
				all[m.ID] = before.again(d, now)
			case d.end == endStopped || ok && m.runs() && backoff.Recovered(before.State, now):
				delete(all, m.ID)
			}
		}
		maps.DeleteFunc(all, func(id string, _ failure) bool { return !exists[id] })
	})
}

// startAttempt records that hpad is about to restart or replace a container, and returns the
// previous record. due is false if its wait has not ended.
func (s *store) startAttempt(ctx context.Context, k key, id string, now time.Time) (before failure, due bool) {
	s.updateFailures(ctx, k, func(all map[string]failure) {
		next, ok := all[id]
		before = next
		if due = ok && next.Due(now); due {
			next.State, next.StartError = backoff.Started(next.State, now), ""
			all[id] = next
		}
	})
	return before, due
}

func (s *store) setStartError(ctx context.Context, k key, id string, err error) {
	s.updateFailures(ctx, k, func(all map[string]failure) {
		next := all[id]
		next.StartError = err.Error()
		all[id] = next
	})
}

// restartFailed restarts or replaces failed containers of a service in the background after
// their back-off, and replaces obsolete replicas. It changes nothing while the service is held.
func (f *Fleet) restartFailed(ctx context.Context, k key, members []*member, known map[string]*detail, l *containerList, held bool) {
	if f.dryRun {
		return
	}
	now := f.now()
	if *cmp.Or(f.config.Services[k.String()].ReplaceFailed, f.config.ReplaceFailed) {
		f.store.observeFailures(ctx, k, members, known, now)
	} else {
		f.store.update(ctx, k, func(r *serviceRecord) { r.Failed = nil })
	}
	due := map[string]bool{}
	all := f.store.of(k).Failed
	for _, m := range counted(members) {
		record, failed := all[m.ID]
		if d := known[m.ID]; d != nil && d.end == endFailed && failed && record.Due(now) {
			due[m.ID] = true
		}
	}
	renew := len(obsolete(members)) > 0
	if !renew {
		f.removals.setError(replaceError(k), "")
	}
	renew = renew && f.isQuiet(members, l.observed)
	if len(due) == 0 && !renew || held || f.running() != nil {
		return
	}
	unlock, ok := f.tryLock(k)
	if !ok {
		return // the next reading retries
	}
	if f.inBackground(func() {
		defer unlock()
		f.restartFailedLocked(k, due, renew)
	}) != nil {
		unlock()
	}
}

func (f *Fleet) restartFailedLocked(k key, due map[string]bool, renew bool) {
	l, err := f.list(f.ctx, k.project)
	if err != nil {
		return // the next reading retries
	}
	c := newChange(k, l, len(counted(l.services[k])))
	if hold(k, c.members) != nil {
		return
	}
	if renew {
		f.replaceObsolete(c)
	}
	failed := slices.DeleteFunc(slices.Clone(c.living), func(m *member) bool { return !due[m.ID] || !f.hasFailed(m) })
	var old []*member
	for _, m := range c.withoutReplacement(failed) {
		before, due := f.store.startAttempt(f.ctx, k, m.ID, f.now())
		switch {
		case !due: // it was started in the meantime and failed again
		case before.exhausted():
			old = append(old, m)
		default:
			if err := f.startAgain(m); err != nil {
				f.store.setStartError(f.ctx, k, m.ID, err)
			}
		}
	}
	if len(old) > 0 {
		f.replaceFailed(c, old)
	}
}

// hasFailed inspects a container again and reports whether it has failed.
func (f *Fleet) hasFailed(m *member) bool {
	inspected, err := f.inspect(f.ctx, m.ID)
	if err != nil || inspected == nil {
		return false
	}
	how, _, _ := f.endOf(m, inspected)
	return how == endFailed
}

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
		return nil // it has been removed in the meantime
	}
	return err
}

// replaceFailed creates a replacement for each container that has failed too often. The
// replacement inherits the back-off.
func (f *Fleet) replaceFailed(c *change, old []*member) {
	replaced := map[string]bool{}
	err := f.replace(c, old, func(m *member, id string) {
		replaced[m.ID] = true
		f.store.updateFailures(f.ctx, c.key, func(all map[string]failure) {
			before := all[m.ID]
			all[id] = failure{State: restart.State{Since: before.Since, Wait: before.Wait}, Cause: before.Cause, Replaces: m.name}
		})
	})
	for _, m := range old {
		if err != nil && !replaced[m.ID] {
			f.store.setStartError(f.ctx, c.key, m.ID, err)
		}
	}
}

// failingNotice returns the notice that containers have exited or restart repeatedly, or nil if
// all are running.
func failingNotice(members []*member, known map[string]*detail, all map[string]failure) *policy.Notice {
	reason := ""
	var texts []string
	for _, m := range members {
		d := known[m.ID]
		if d == nil {
			continue
		}
		switch m.State {
		case container.StateRestarting:
			reason = "ContainersRestarting"
			texts = append(texts, fmt.Sprintf("%s %s and was restarted %d times", m.name, d.ended(), d.restarts))
		case container.StateExited:
			if reason == "" {
				reason = "ContainersExited"
			}
			text := m.name + " " + d.ended()
			if record, ok := all[m.ID]; ok && d.end == endFailed {
				text += record.plan()
			}
			texts = append(texts, text)
		}
	}
	if reason == "" {
		return nil
	}
	return &policy.Notice{
		Condition: ContainersFailing, Reason: reason,
		Message: fmt.Sprintf("%d of %d containers do not run: %s", len(texts), len(members), joined(texts)),
	}
}

// restartNotices lists the containers that hpad has restarted or replaced. A container is
// listed until it has run for backoff.Reset.
func restartNotices(living []*member, all map[string]failure) []policy.Notice {
	var started, replaced []string
	for _, m := range living {
		record := all[m.ID]
		if record.Starts > 0 {
			started = append(started, fmt.Sprintf("%s %s and was started again, %d times so far", m.name, record.Cause, record.Starts))
		}
		if record.Replaces != "" {
			replaced = append(replaced, fmt.Sprintf("%s replaces %s, which %s repeatedly", m.name, record.Replaces, record.Cause))
		}
	}
	var notices []policy.Notice
	if len(started) > 0 {
		notices = append(notices, policy.Notice{Condition: ContainersRestarted, Reason: "StartedAgain", Message: "hpad restarts failed containers: " + joined(started)})
	}
	if len(replaced) > 0 {
		notices = append(notices, policy.Notice{Condition: ContainersReplaced, Reason: "FailedTooOften", Message: "hpad has replaced failed containers: " + joined(replaced)})
	}
	return notices
}

// joined joins the first few texts in sorted order.
func joined(texts []string) string {
	slices.Sort(texts)
	return targets.Some(texts, "; ")
}
