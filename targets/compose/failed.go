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
// kubelet: it restarts the container with increasing delays.

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
}

// again returns the record after a further reading of a failed container.
func (r failure) again(d *detail, now time.Time) failure {
	if r.Since.After(now) { // the clock was set back: treat the failure as if it happened now
		r.Since = now
	}
	if r.Wait > 0 && r.Ended.Equal(d.finished) {
		return r
	}
	return failure{State: backoff.Failed(r.State, d.finished.Sub(d.started), now), Ended: d.finished, Cause: d.ended()}
}

// plan describes the next action of hpad.
func (r failure) plan() string {
	text := fmt.Sprintf(" (hpad restarts it after %v", r.Wait)
	if r.StartError != "" {
		text += "; the last start failed: " + r.StartError
	}
	return text + ")"
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
			if d == nil || d.pending && d.end != endFailed {
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

// startAttempt records that hpad is about to restart a container. It returns false if the wait
// has not ended, or if the record cannot be written.
func (s *store) startAttempt(ctx context.Context, k key, id string, now time.Time) (due bool) {
	err := s.commit(ctx, k, func(r *serviceRecord) {
		r.Failed = edited(r.Failed, func(all map[string]failure) {
			next, ok := all[id]
			if due = ok && next.Due(now); due {
				next.State, next.StartError = backoff.Started(next.State, now), ""
				all[id] = next
			}
		})
	})
	return due && err == nil
}

func (s *store) setStartError(ctx context.Context, k key, id string, err error) {
	s.updateFailures(ctx, k, func(all map[string]failure) {
		next := all[id]
		next.StartError = err.Error()
		all[id] = next
	})
}

// restartFailed restarts failed containers of a service in the background after their back-off,
// and replaces obsolete replicas. It changes nothing while the service is held.
func (f *Fleet) restartFailed(ctx context.Context, k key, members []*member, known map[string]*detail, l *containerList, held bool) {
	if f.dryRun {
		return
	}
	now := f.now()
	if *cmp.Or(f.config.Services[k.String()].RestartFailed, f.config.RestartFailed) {
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
		f.setError(replaceError(k), "")
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
	for _, m := range c.living {
		if !due[m.ID] || !f.hasFailed(m) || !f.store.startAttempt(f.ctx, k, m.ID, f.now()) {
			continue
		}
		if err := f.startAgain(m); err != nil {
			f.store.setStartError(f.ctx, k, m.ID, err)
		}
	}
}

// hasFailed inspects a container again and reports whether it has failed.
func (f *Fleet) hasFailed(m *member) bool {
	inspected, err := f.inspect(f.ctx, m.ID, m.name)
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
	f.dropDetail(m.ID)
	if isNotFound(err) {
		return nil // the container no longer exists
	}
	return err
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
		Message: fmt.Sprintf("%d of %d containers are not running: %s", len(texts), len(members), joined(texts)),
	}
}

// restartNotice lists the containers that hpad has restarted, or returns nil if there are none. A
// container is listed until it has run for backoff.Reset.
func restartNotice(living []*member, all map[string]failure) *policy.Notice {
	var texts []string
	for _, m := range living {
		if record := all[m.ID]; record.Starts > 0 {
			texts = append(texts, fmt.Sprintf("%s %s (restarts by hpad: %d)", m.name, record.Cause, record.Starts))
		}
	}
	if len(texts) == 0 {
		return nil
	}
	return &policy.Notice{Condition: ContainersRestarted, Reason: "StartedAgain", Message: "hpad restarted failed containers: " + joined(texts)}
}

// joined joins the first few texts in sorted order.
func joined(texts []string) string {
	slices.Sort(texts)
	return targets.FirstThree(texts, "; ")
}
