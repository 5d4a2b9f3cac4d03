package compose

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/docker/docker/api/types/container"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
)

// Somebody may change a service while hpad makes replicas of it: "docker compose up"
// renews the containers that it saw when it began, "docker compose down" removes those.
// Neither knows of a replica that was made meanwhile, so hpad lists the service after
// each of its own, and takes back what it made where the service is another one by then,
// or gone.

// batch is what one change of a count makes.
type batch struct {
	key       key
	blueprint *blueprint
	watch     *watch
	// configuration is that of the blueprint, as is copied.As of the replicas.
	configuration configuration
	as            int64
	// alone reports that nothing else of the project was there when it began.
	alone bool
	// instead is what the next replica is to take the place of; nil for nothing.
	instead *member
	// replicas are the names of those that were created and not removed, by id.
	replicas map[string]string
}

// newBatch returns an empty batch of replicas by a blueprint that was made for an order.
func newBatch(o *order, b *blueprint, w *watch) *batch {
	made := &batch{
		key: o.key, blueprint: b, watch: w, replicas: map[string]string{},
		configuration: configuration{hash: b.Config.Labels[labelHash], image: b.Config.Labels[labelImage]},
		alone:         o.listing.projects[o.key.project] == 0,
	}
	if from := latest(o.living); from != nil {
		made.as = from.since()
	}
	return made
}

func (b *batch) names() string {
	return strings.Join(slices.Sorted(maps.Values(b.replicas)), ", ")
}

// keep enters a replica that was created. What an earlier hpad was about to create by
// its name is refused from now on.
func (f *Fleet) keep(made *batch, id, name string) {
	made.replicas[id] = name
	f.removals.found(f.ctx, made.key, name)
	one := copied{As: made.as, Made: time.Now().UTC(), Unchecked: true, Alone: made.alone}
	if made.instead != nil {
		one.Instead, one.Number = made.instead.ID, made.instead.number
	}
	f.copies.note(f.ctx, made.key, id, one)
}

func (f *Fleet) drop(made *batch, id string) {
	delete(made.replicas, id)
	f.copies.forget(f.ctx, made.key, id)
}

// add starts a replica of a batch, and looks what became of the service meanwhile.
func (f *Fleet) add(ctx context.Context, made *batch, number int) error {
	err := f.startInTurn(ctx, made, number)
	if len(made.replicas) == 0 {
		return err
	}
	found := f.look(made)
	if _, overtaken := errors.AsType[*overtakenError](found); err == nil || overtaken {
		return found
	}
	return err
}

// finish ends a batch, where err is what keeps it from going on.
func (f *Fleet) finish(made *batch, err error) error {
	if overtaken, ok := errors.AsType[*overtakenError](err); ok {
		err = f.withdraw(made, overtaken)
	}
	if errors.Is(err, targets.ErrUnknownOutcome) {
		f.removals.abandon(made.key)
	} else {
		f.removals.end(f.ctx, made.key)
	}
	return err
}

// overtakenError means that replicas of a batch, by id, are not what the service is any
// more, and have to go.
type overtakenError struct {
	replicas []string
	err      error
}

func (e *overtakenError) Error() string { return e.err.Error() }
func (e *overtakenError) Unwrap() error { return e.err }

// look returns why a batch must not go on, since somebody else changes the service: an
// overtakenError where something that it made must go too.
func (f *Fleet) look(made *batch) error {
	l, err := f.list(f.ctx, made.key.project)
	if err != nil {
		return fmt.Errorf("look what became of service %q meanwhile: %w", made.key, err)
	}
	members := l.services[made.key]
	if err := f.takenAway(made.key, l, made.replicas, made.as == 0, made.alone); err != nil {
		return &overtakenError{slices.Collect(maps.Keys(made.replicas)), err}
	}
	held := hold(made.key, members)
	if err := made.renewed(members, held); err != nil {
		return err
	}
	if held != nil {
		return &targets.HeldError{Hold: *held}
	}
	if held, since := made.watch.stopping(made.key, l, made.replicas); held != nil {
		f.haltToo(made, l)
		return f.stopped(made, held, since)
	}
	for id, name := range made.replicas {
		if !slices.ContainsFunc(members, func(m *member) bool { return m.ID == id }) {
			delete(made.replicas, id)
			return fmt.Errorf("%w: somebody else has removed the new container %s", targets.ErrConflict, name)
		}
	}
	return nil
}

// haltToo begins to stop what a batch has made where somebody has ended all others of
// the service: those that had not started then Compose could not stop, and would leave
// running.
func (f *Fleet) haltToo(made *batch, l *listing) {
	if !made.watch.halted(l.services[made.key], made.replicas, l.observed) {
		return
	}
	for id := range made.replicas {
		_ = f.inBackground(func() { _ = f.halt(id) })
	}
}

// halt stops a container as Compose does. It lasts as long as the container takes.
func (f *Fleet) halt(id string) error {
	c, err := f.waiting.Client(f.ctx)
	if err != nil {
		return err
	}
	return c.ContainerStop(f.ctx, id, container.StopOptions{})
}

// stopped removes replicas of a batch that were created since somebody stops containers
// of the project, and returns the hold. They have served nobody yet, and are removed at
// once: "docker compose down" removes networks when the others have ended. Of earlier
// ones Compose may know, and is about to remove or to renew them.
func (f *Fleet) stopped(made *batch, held *policy.Hold, since []string) error {
	for _, id := range since {
		if err := f.discard(id); err != nil {
			return fmt.Errorf("%w: %s; container %s is left over: %w", targets.ErrUnknownOutcome, held.Message, made.replicas[id], err)
		}
		f.drop(made, id)
	}
	return &targets.HeldError{Hold: *held}
}

// renewed returns an error where Compose has renewed a service since a batch began. Of
// the replicas those go that are newer than the last one that Compose made: it does not
// know of them. The others it may be about to renew too, or the next readings do. The
// newest container is listed first.
func (b *batch) renewed(members []*member, held *policy.Hold) error {
	last := latest(counted(members))
	if last == nil || last.configuration() == b.configuration {
		return nil
	}
	err := fmt.Errorf("%w: Compose has renewed service %q while hpad made %s with the configuration of before", targets.ErrConflict, b.key, b.names())
	if held != nil {
		err = &targets.HeldError{Hold: *held}
	}
	var unknown []string
	for _, m := range members {
		if m == last {
			break
		}
		if _, own := b.replicas[m.ID]; own {
			unknown = append(unknown, m.ID)
		}
	}
	return &overtakenError{unknown, err}
}

// takenAway returns who took everything of a service but the replicas that hpad has just
// made, by id: "docker compose down" the whole project, "docker compose rm" the service;
// nil when something else is there. Of a service that was at 0 nothing was there, and
// nothing else of the project where it was alone.
func (f *Fleet) takenAway(k key, l *listing, made map[string]string, fromZero, alone bool) error {
	ours := 0
	for _, m := range l.services[k] {
		_, own := made[m.ID]
		switch {
		case own && !m.doomed:
			ours++
		case !own && m.counts():
			return nil
		}
	}
	const told = "%w: somebody else has removed %s while hpad made containers of service %q, which are removed again; \"docker compose up -d%s\" brings it back"
	switch others := l.projects[k.project] > ours; {
	case others && !fromZero:
		return &targets.ReasonError{Reason: ServiceRemoved, Err: fmt.Errorf(told, targets.ErrTransient, "all others", k, " "+k.service)}
	case others || fromZero && alone:
		return nil
	}
	return &targets.ReasonError{Reason: ProjectRemoved, Err: fmt.Errorf(told, targets.ErrTargetNotFound, fmt.Sprintf("all of project %q", k.project), k, "")}
}

// withdraw removes replicas of a batch, and returns why.
func (f *Fleet) withdraw(made *batch, why *overtakenError) error {
	victims := make([]*member, 0, len(why.replicas))
	for _, id := range why.replicas {
		m := &member{key: made.key, name: made.replicas[id]}
		m.ID = id
		victims = append(victims, m)
	}
	if err := f.takeBack(made.key, victims); err != nil {
		return fmt.Errorf("%w: %s; %w", targets.ErrUnknownOutcome, why.Error(), err)
	}
	for _, id := range why.replicas {
		delete(made.replicas, id)
	}
	return why.err
}

// takeBack begins to remove replicas that hpad made, or removes them at once where that
// cannot be stored.
func (f *Fleet) takeBack(k key, replicas []*member) error {
	stored := f.removals.doom(f.ctx, k, replicas) == nil
	for _, m := range replicas {
		m.doomed = true
		if stored {
			f.remove(k, m.ID, m.name)
		} else if err := f.discard(m.ID); err != nil {
			return fmt.Errorf("remove container %s: %w", m.name, err)
		}
		f.copies.forget(f.ctx, k, m.ID)
	}
	return nil
}
