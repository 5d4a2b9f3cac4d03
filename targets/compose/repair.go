package compose

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/docker/docker/api/types/container"

	"github.com/hpad/hpad/policy"
)

// Compose works on the containers that existed when it started: "docker compose up"
// recreates those, "docker compose down" removes those. A replica that hpad creates
// meanwhile is left behind, with an old configuration or without a project. hpad does not
// prevent that. Each reading looks for such replicas and repairs the service.

const (
	// freshFor is the age up to which Compose may have missed a replica. It is longer than
	// Compose works on the containers that it found.
	freshFor = 5 * time.Minute
	// composeQuiet is how long Compose must have created no container of a service before
	// hpad replaces its obsolete replicas. Until then Compose may do so.
	composeQuiet = 10 * time.Second
	// replaceRetry is the pause after a failure to replace a replica.
	replaceRetry = time.Minute
)

// leftOver reports whether hpad created a container and ended before it started it.
func (m *member) leftOver() bool {
	return m.copied && m.State == container.StateCreated
}

// unwanted returns the containers of a service that hpad has to remove: leftBehind are
// replicas that Compose has missed or that hpad has not started, replaced are containers
// with a started replacement.
func (l *listing) unwanted(k key) (leftBehind, replaced []*member) {
	there := map[string]*member{}
	for _, m := range l.services[k] {
		there[m.ID] = m
	}
	leftBehind = l.orphans(k)
	for _, m := range l.services[k] {
		switch old := there[m.Labels[labelReplaces]]; {
		case !m.remains() || slices.Contains(leftBehind, m):
		case m.leftOver() || m.spare && old == nil:
			leftBehind = append(leftBehind, m)
		case m.spare && m.State != container.StateCreated:
			replaced = append(replaced, old)
		}
	}
	return leftBehind, replaced
}

// orphans returns the fresh replicas of a service if everything that existed beside them
// was removed, and not by hpad: "docker compose down" or "docker compose rm" has missed
// them.
func (l *listing) orphans(k key) []*member {
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

// fresh returns the number of fresh replicas in a project that had other containers.
func (l *listing) fresh(project string) int {
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

// repair removes containers of some services that were left behind or replaced, and corrects
// the list. It skips a service while hpad creates containers of it. Other services may belong
// to another hpad.
func (f *Fleet) repair(ctx context.Context, l *listing, services iter.Seq[key]) {
	if f.running() != nil {
		return
	}
	for k := range services {
		if leftBehind, replaced := l.unwanted(k); len(leftBehind)+len(replaced) == 0 && !f.isBack(k, l) {
			continue
		}
		end, ok := f.turnNow(k)
		if !ok {
			continue
		}
		f.repairInTurn(ctx, l, k)
		end()
	}
}

// repairInTurn lists the project again: while the turn is held, hpad starts no container of
// the service.
func (f *Fleet) repairInTurn(ctx context.Context, l *listing, k key) {
	now, err := f.list(ctx, k.project)
	if err != nil {
		return // the next reading repeats it
	}
	leftBehind, replaced := now.unwanted(k)
	if f.removals.doom(ctx, k, leftBehind, nil) != nil || f.removals.doom(ctx, k, replaced, now.services[k]) != nil {
		return
	}
	if f.isBack(k, now) {
		f.templates.drop(ctx, k)
	}
	f.removals.mark(now, nil) // before a removal ends and is forgotten
	for _, m := range slices.Concat(leftBehind, replaced) {
		f.remove(k, m.ID, m.name)
	}
	maps.Copy(l.services, now.services)
	l.projects[k.project] = now.projects[k.project]
}

// isBack reports whether a service runs that hpad had scaled to 0.
func (f *Fleet) isBack(k key, l *listing) bool {
	return f.templates.of(k) != nil && slices.ContainsFunc(counted(l.services[k]), (*member).runs)
}

// obsolete returns the replicas that hpad created while Compose renewed the service, with
// the previous configuration, in the order of their numbers.
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

// isQuiet reports whether Compose has created no container of a service for composeQuiet.
func (f *Fleet) isQuiet(members []*member, now time.Time) bool {
	return !slices.ContainsFunc(members, func(m *member) bool {
		return !m.copied && now.Sub(time.Unix(m.Created, 0)) < f.quiet
	})
}

// besideOf returns the value of labelBeside for new replicas.
func (o *order) besideOf() string {
	switch {
	case len(o.living) > 0:
		return besideService
	case o.listing.remaining(o.key.project) > 0:
		return besideProject
	}
	return ""
}

// labels returns hpad's labels for new replicas.
func (o *order) labels() map[string]string {
	source := int64(0)
	if from := latest(o.living); from != nil {
		source = from.sourceCreated
	}
	return map[string]string{labelSource: strconv.FormatInt(source, 10), labelBeside: o.besideOf()}
}

// replace creates a replica of the newest configuration for each of some containers, in the
// service's turn. A later reading removes the container that was replaced. replaced, if
// not nil, is called with each container and the ID of its replacement.
func (f *Fleet) replace(o *order, old []*member, replaced func(m *member, id string)) error {
	if err := o.waits(f.templates); err != nil {
		return err
	}
	b, err := f.plan(f.ctx, o)
	if err != nil {
		return err
	}
	numbers, err := f.freeNumbers(f.ctx, o, b, len(old))
	if err != nil {
		return err
	}
	for n, m := range old {
		labels := o.labels()
		labels[labelReplaces] = m.ID
		id, err := f.startInTurn(f.ctx, o.key, b, numbers[n], labels)
		if err != nil {
			return err
		}
		if replaced != nil {
			replaced(m, id)
		}
	}
	return nil
}

// replaceObsolete replaces the obsolete replicas of a service, in its turn.
func (f *Fleet) replaceObsolete(o *order) error {
	old := withoutSpare(o, obsolete(o.members))
	if len(old) == 0 {
		return nil
	}
	return f.replace(o, old, nil)
}

// withoutSpare returns the containers that have no replacement yet.
func withoutSpare(o *order, old []*member) []*member {
	return slices.DeleteFunc(old, func(m *member) bool {
		return slices.ContainsFunc(o.members, func(other *member) bool { return other.spare && other.Labels[labelReplaces] == m.ID })
	})
}

// overtaken returns the notice that hpad created replicas while Compose renewed the
// service; nil if no replica is obsolete.
func (f *Fleet) overtaken(k key, members []*member) *policy.Notice {
	old := obsolete(members)
	if len(old) == 0 {
		return nil
	}
	names := make([]string, 0, len(old))
	for _, m := range old {
		names = append(names, m.name)
	}
	message := fmt.Sprintf("Compose has renewed service %q while hpad created %s, with the configuration of before; hpad replaces them", k.service, strings.Join(names, ", "))
	if err := f.unreplaced.of(k); err != nil {
		message += ", which failed: " + err.Error()
	}
	return &policy.Notice{Condition: ObsoleteReplicas, Reason: "RenewedMeanwhile", Message: message}
}

// failures are the last errors of an operation by service. They are safe for concurrent
// use.
type failures struct {
	mu   sync.Mutex
	last map[key]failure
}

type failure struct {
	err error
	at  time.Time
}

// of returns the last error; nil if the last operation succeeded.
func (f *failures) of(k key) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.last[k].err
}

// over reports whether the operation may be tried again.
func (f *failures) over(k key, now time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	last, failed := f.last[k]
	return !failed || now.Sub(last.at) >= replaceRetry
}

// set stores an error; nil forgets the last one.
func (f *failures) set(k key, err error, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err == nil {
		delete(f.last, k)
		return
	}
	if f.last == nil {
		f.last = map[key]failure{}
	}
	f.last[k] = failure{err: err, at: now}
}
