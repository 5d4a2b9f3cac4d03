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
	// freshFor is the age up to which Compose may have missed a replica. It is longer than a
	// run of Compose takes.
	freshFor = 5 * time.Minute
	// composeQuiet is how long Compose must not have created containers of a service before
	// hpad replaces its obsolete replicas. Until then, Compose may replace them itself.
	composeQuiet = 10 * time.Second
)

// notStarted reports whether hpad created a container but exited before it started the
// container.
func (m *member) notStarted() bool {
	return m.copied && m.State == container.StateCreated
}

// unwanted returns the containers of a service that hpad must remove. leftBehind contains
// replicas that Compose missed or that hpad did not start; replaced contains containers whose
// replacement has started.
func (l *containerList) unwanted(k key) (leftBehind, replaced []*member) {
	byID := map[string]*member{}
	for _, m := range l.services[k] {
		byID[m.ID] = m
	}
	leftBehind = l.orphans(k)
	for _, m := range l.services[k] {
		switch old := byID[m.Labels[labelReplaces]]; {
		case !m.remains() || slices.Contains(leftBehind, m):
		case m.notStarted() || m.spare && old == nil:
			leftBehind = append(leftBehind, m)
		case m.spare && m.State != container.StateCreated:
			replaced = append(replaced, old)
		}
	}
	return leftBehind, replaced
}

// orphans returns the fresh replicas of a service if all containers that existed beside them
// were removed, but not by hpad. This happens when "docker compose down" or "docker compose rm"
// misses the replicas.
func (l *containerList) orphans(k key) []*member {
	var made []*member
	fromZero := false
	for _, m := range l.services[k] {
		beside := m.Labels[labelBeside]
		switch {
		case !m.remains():
		case !m.fresh || beside == "":
			return nil
		default:
			made = append(made, m)
			fromZero = fromZero || beside == besideProject
		}
	}
	if fromZero && l.remaining(k.project) > l.fresh(k.project) {
		return nil
	}
	return made
}

// fresh returns the number of fresh replicas in a project that were created beside other
// containers.
func (l *containerList) fresh(project string) int {
	n := 0
	for k, members := range l.services {
		for _, m := range members {
			if k.project == project && m.fresh && !m.doomed && m.Labels[labelBeside] != "" {
				n++
			}
		}
	}
	return n
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
	f.store.mark(now, nil) // before a removal ends and is deleted from the record
	for _, m := range slices.Concat(leftBehind, replaced) {
		f.remove(k, m.ID, m.name)
	}
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
		missed := time.Unix(last.sourceCreated, 0).Sub(time.Unix(m.Created, 0)) <= freshFor
		if m.copied && missed && m.configuration() != last.configuration() {
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
	source, beside := int64(0), ""
	if from := latest(c.living); from != nil {
		source, beside = from.sourceCreated, besideService
	} else if c.list.remaining(c.key.project) > 0 {
		beside = besideProject
	}
	return map[string]string{labelSource: strconv.FormatInt(source, 10), labelBeside: beside}
}

// replace creates a replica of the newest configuration for each given container. A later
// reading removes the container that was replaced. If created is not nil, it is called with
// each container and the ID of its replacement.
func (f *Fleet) replace(c *change, old []*member, created func(m *member, id string)) error {
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
	for n, m := range old {
		labels := c.labels()
		labels[labelReplaces] = m.ID
		id, err := f.startExclusively(f.ctx, c.key, b, numbers[n], labels)
		if err != nil {
			return err
		}
		if created != nil {
			created(m, id)
		}
	}
	return nil
}

func (f *Fleet) replaceObsolete(c *change) {
	text := ""
	if old := c.withoutReplacement(obsolete(c.members)); len(old) > 0 {
		if err := f.replace(c, old, nil); err != nil {
			text = fmt.Sprintf("obsolete replicas of service %q cannot be replaced: %v", c.key, err)
		}
	}
	f.removals.setError(replaceError(c.key), text)
}

func replaceError(k key) string { return "replace " + k.String() }

// withoutReplacement returns the containers that have no replacement yet.
func (c *change) withoutReplacement(old []*member) []*member {
	return slices.DeleteFunc(old, func(m *member) bool {
		return slices.ContainsFunc(c.members, func(other *member) bool { return other.spare && other.Labels[labelReplaces] == m.ID })
	})
}

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
		Condition: ObsoleteReplicas, Reason: "RenewedMeanwhile",
		Message: fmt.Sprintf("Compose has renewed service %q while hpad created %s, which have the previous configuration; hpad replaces them", k.service, strings.Join(names, ", ")),
	}
}
