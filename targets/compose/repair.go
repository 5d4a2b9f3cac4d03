package compose

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/docker/docker/api/types/container"

	"github.com/hpad/hpad/policy"
)

// Compose works on the containers that existed when it started: "docker compose up" recreates
// them, and "docker compose down" removes them. A replica that hpad creates in the meantime is
// left behind, with an old configuration or without a project. hpad does not prevent this.
// Instead, each reading finds such replicas and repairs the service.

const (
	// freshFor is the maximum age of a replica that Compose may have missed. A run of Compose
	// takes less time.
	freshFor = 5 * time.Minute
	// composeQuiet is the time after Compose last created a container of a service before hpad
	// replaces its obsolete replicas. Until then, Compose may replace them itself.
	composeQuiet = 10 * time.Second
)

// notStarted reports whether hpad created a container but exited before it started the
// container.
func (m *member) notStarted() bool {
	return m.copied && m.State == container.StateCreated
}

// unwanted returns the containers of a service that hpad must remove. leftBehind contains the
// replicas of a removed project, and replicas that hpad did not start; replaced contains
// containers whose replacement has started.
func (l *containerList) unwanted(k key) (leftBehind, replaced []*member) {
	all, fresh := l.remaining(k.project)
	for _, m := range l.services[k] {
		switch {
		case !m.remains():
		case all == fresh || m.notStarted():
			leftBehind = append(leftBehind, m)
		case m.spare:
			replaced = append(replaced, m.replaces(l.services[k]))
		}
	}
	return leftBehind, replaced
}

// repair removes containers of the given services that were left behind or replaced, and
// updates the list. It skips a service while hpad is creating containers of it. It leaves other
// services alone, because they may belong to a different hpad.
func (f *Fleet) repair(ctx context.Context, l *containerList, services iter.Seq[key]) {
	if f.running() != nil {
		return
	}
	for k := range services {
		if leftBehind, replaced := l.unwanted(k); len(leftBehind)+len(replaced) == 0 && !f.isBack(k, l) {
			continue
		}
		unlock, ok := f.tryLock(k)
		if !ok {
			continue
		}
		f.repairLocked(ctx, l, k)
		unlock()
	}
}

// repairLocked lists the project again. Because the service is locked, hpad starts no container
// of it in the meantime.
func (f *Fleet) repairLocked(ctx context.Context, l *containerList, k key) {
	now, err := f.list(ctx, k.project)
	if err != nil {
		return // the next reading retries
	}
	leftBehind, replaced := now.unwanted(k)
	if f.storeVictims(ctx, k, leftBehind, nil) != nil || f.storeVictims(ctx, k, replaced, now.services[k]) != nil {
		return
	}
	if f.isBack(k, now) {
		f.store.dropTemplate(ctx, k)
	}
	f.store.mark(now, nil) // mark them now, because a removal that ends is deleted from the record
	f.remove(k, namesOf(slices.Concat(leftBehind, replaced)))
	maps.Copy(l.services, now.services)
	l.projects[k.project] = now.projects[k.project]
}

// isBack reports whether a service that hpad had scaled to 0 is running.
func (f *Fleet) isBack(k key, l *containerList) bool {
	return f.store.template(k) != nil && slices.ContainsFunc(counted(l.services[k]), (*member).runs)
}

// obsolete returns the replicas that hpad created with the previous configuration while Compose
// was updating the service, ordered by number.
func obsolete(members []*member) []*member {
	living := counted(members)
	last := latest(living)
	var found []*member
	for _, m := range living {
		if m.copied && m.configuration() != last.configuration() && last.Created-m.Created <= int64(freshFor/time.Second) {
			found = append(found, m)
		}
	}
	slices.SortFunc(found, func(a, b *member) int { return a.number - b.number })
	return found
}

// isQuiet reports whether Compose has not created a container of the service for composeQuiet.
func (f *Fleet) isQuiet(members []*member, now time.Time) bool {
	return !slices.ContainsFunc(members, func(m *member) bool {
		return !m.copied && now.Sub(time.Unix(m.Created, 0)) < f.quiet
	})
}

// labels returns the labels that hpad adds to new replicas.
func (c *change) labels() map[string]string {
	others, _ := c.list.remaining(c.key.project)
	return map[string]string{labelBeside: strconv.FormatBool(others > 0)}
}

// replaceObsolete creates a replica of the newest configuration for each obsolete one. A later
// reading removes the replaced containers.
func (f *Fleet) replaceObsolete(c *change) {
	old := slices.DeleteFunc(obsolete(c.members), func(m *member) bool {
		return slices.ContainsFunc(c.members, func(other *member) bool { return other.spare && other.Labels[labelReplaces] == m.ID })
	})
	text := ""
	if err := f.replace(c, old); err != nil {
		text = fmt.Sprintf("obsolete replicas of service %q cannot be replaced: %v", c.key, err)
	}
	f.setError(replaceError(c.key), text)
}

func (f *Fleet) replace(c *change, old []*member) error {
	if len(old) == 0 {
		return nil
	}
	if err := c.waits(f.store); err != nil {
		return err
	}
	b, err := f.plan(f.ctx, c)
	if err != nil {
		return err
	}
	numbers, err := f.freeNumbers(f.ctx, c, b, len(old))
	if err != nil {
		return err
	}
	if err := f.store.commit(f.ctx, c.key, func(r *serviceRecord) { r.Replacing = f.now() }); err != nil {
		return err
	}
	for n, m := range old {
		labels := c.labels()
		labels[labelReplaces] = m.ID
		if err := f.startExclusively(f.ctx, c.key, b, numbers[n], labels); err != nil {
			return err
		}
	}
	return nil
}

func replaceError(k key) string { return "replace " + k.String() }

// obsoleteNotice returns the notice that hpad created replicas while Compose was updating the
// service, or nil if no replica is obsolete.
func obsoleteNotice(k key, members []*member) *policy.Notice {
	old := obsolete(members)
	if len(old) == 0 {
		return nil
	}
	names := make([]string, 0, len(old))
	for _, m := range old {
		names = append(names, m.name)
	}
	return &policy.Notice{
		Condition: obsoleteReplicas, Reason: "RenewedMeanwhile",
		Message: fmt.Sprintf("Compose updated service %q while hpad was creating %s with the previous configuration; hpad replaces them", k.service, strings.Join(names, ", ")),
	}
}
