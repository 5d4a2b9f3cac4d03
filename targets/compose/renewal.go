package compose

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
)

// review looks at the replicas that hpad made lately. It takes back what an earlier hpad
// had no time to look after, or what could not be seen then, where the service was taken
// away meanwhile, and replaces what Compose has overtaken since.
func (f *Fleet) review(ctx context.Context, l *listing) {
	if f.running() != nil {
		return
	}
	for _, k := range f.copies.services() {
		end, ok := f.turnNow(k)
		if !ok {
			continue // whoever makes replicas looks after them
		}
		f.reviewUnchecked(ctx, k, l)
		members := l.services[k]
		if made := surplus(members, f.copies.of(k)); len(made) > 0 && f.takeBack(k, made) == nil {
			l.projects[k.project] -= len(made)
		}
		if len(obsolete(members)) == 0 {
			f.copies.fine(k)
		} else if !f.dryRun && f.copies.due(k, latest(counted(members)), l.observed) && hold(k, members) == nil {
			if f.inBackground(func() {
				defer end()
				f.copies.fail(k, f.replaceObsolete(k), l.observed)
			}) == nil {
				continue
			}
		}
		f.copies.settle(ctx, k, members, l.observed)
		end()
	}
}

// reviewUnchecked looks at the replicas of a service that nobody has looked after since
// they had started.
func (f *Fleet) reviewUnchecked(ctx context.Context, k key, l *listing) {
	known := f.copies.of(k)
	made := map[string]string{}
	var found []*member
	var ids []string
	fromZero, alone := false, false
	for _, m := range l.services[k] {
		if one := known[m.ID]; one.Unchecked && m.counts() {
			made[m.ID] = m.name
			found, ids = append(found, m), append(ids, m.ID)
			fromZero, alone = fromZero || one.As == 0, alone || one.Alone
			if l.observed.Sub(one.Made) > copyAge {
				return // what is not there went long after it was made, for all one knows
			}
		}
	}
	if len(found) == 0 {
		return
	}
	if f.takenAway(k, l, made, fromZero, alone) == nil {
		f.copies.checked(ctx, k, ids...)
		return
	}
	if err := f.takeBack(k, found); err == nil {
		l.projects[k.project] -= len(found)
	}
}

// replaceObsolete makes a replica of the newest configuration, in its turn, for each
// that Compose has overtaken, and removes that one then. The count stays what it is.
func (f *Fleet) replaceObsolete(k key) error {
	l, err := f.list(f.ctx, k.project)
	if err != nil {
		return err
	}
	o := newOrder(k, l, len(counted(l.services[k]))+1)
	old := obsolete(o.members)
	if len(old) == 0 || hold(k, o.members) != nil {
		return nil
	}
	if old = f.withoutReplacement(o, old); len(old) == 0 {
		return nil
	}
	if err = f.replace(o, old, nil); errors.Is(err, targets.ErrOutOfRange) {
		return f.takeBack(k, old[:1]) // there is no room for one more beside it
	}
	return err
}

// replace makes a replica of the newest configuration, in the service's turn, for each
// of some containers, and removes that one then; replaced, if not nil, is called with
// both. It is an ErrOutOfRange where there is no room for as many as the order has.
func (f *Fleet) replace(o *order, old []*member, replaced func(m *member, id string)) error {
	k, l := o.key, o.listing
	if err := o.waits(f.templates); err != nil {
		return err
	}
	w := f.follow(k.project)
	defer w.close()
	b, err := f.plan(f.ctx, o)
	if err != nil {
		return err
	}
	if held, _ := w.stopping(k, l, nil); held != nil {
		return &targets.HeldError{Hold: *held}
	}
	made := newBatch(o, b, w)
	numbers, names, err := f.freeNumbers(f.ctx, o, b, len(old))
	if err != nil {
		return err
	}
	instead := map[string]string{}
	for n, m := range old {
		instead[names[n]] = m.ID
	}
	f.copies.replace(k, instead)
	defer f.copies.replace(k, nil)
	f.removals.begin(f.ctx, k, names)
	for n, m := range old {
		made.instead = m
		if err = f.add(f.ctx, made, numbers[n]); err != nil {
			break
		}
		for id := range made.replicas {
			if replaced != nil {
				replaced(m, id)
			}
			if len(old) == len(o.living) {
				f.copies.checked(f.ctx, k, id) // what it was made beside is going
			}
		}
		clear(made.replicas) // it stays, whatever becomes of the next one
		if err = f.takeBack(k, []*member{m}); err != nil {
			break
		}
	}
	if held, ok := errors.AsType[*targets.HeldError](err); ok && held.Hold.Reason == ContainersStopping {
		// It would run where all others are stopped.
		err = &overtakenError{slices.Collect(maps.Keys(made.replicas)), err}
	}
	return f.finish(made, err)
}

// withoutReplacement removes those containers whose replacement an earlier hpad has
// made, and returns the others.
func (f *Fleet) withoutReplacement(o *order, old []*member) []*member {
	current := newest(o.living)
	known := f.copies.of(o.key)
	var others []*member
	for _, m := range old {
		done := false
		for _, other := range o.members {
			if other.spare && other.runs() && other.configuration() == current && known[other.ID].Instead == m.ID {
				done = f.takeBack(o.key, []*member{m}) == nil
				break
			}
		}
		if !done {
			others = append(others, m)
		}
	}
	return others
}

// overtaken returns that hpad made replicas while Compose renewed the service; nil when
// it has none.
func (f *Fleet) overtaken(k key, members []*member) *policy.Notice {
	old := obsolete(members)
	if len(old) == 0 {
		return nil
	}
	names := make([]string, 0, len(old))
	for _, m := range old {
		names = append(names, m.name)
	}
	message := fmt.Sprintf("Compose has renewed service %q while hpad made %s, with the configuration of before; hpad replaces them by new ones", k.service, strings.Join(names, ", "))
	if err := f.copies.failure(k); err != nil {
		message += ", which failed: " + err.Error()
	}
	return &policy.Notice{Condition: ObsoleteReplicas, Reason: "RenewedMeanwhile", Message: message}
}

func emptied(k key) *policy.Notice {
	return &policy.Notice{
		Condition: ContainersRemoved, Reason: ServiceRemoved,
		Message: fmt.Sprintf("somebody else than hpad has removed all containers of service %q of project %q; \"docker compose up -d %s\" brings it back", k.service, k.project, k.service),
	}
}
