package systemd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/hpad/hpad/policy"
)

// refusedStart is why the manager did not start an instance.
type refusedStart struct {
	// masked reports that somebody forbade it, said is what the manager said.
	masked bool
	said   string
	// at is when it was last so.
	at time.Time
}

// How many instances of a target may be passed over at a time because they are masked,
// which is somebody's wish, and because the manager refuses them for another reason,
// which may be that of all of them.
const (
	maskedOver  = 100
	refusedOver = 10
)

// refusalPause is how long a refused instance is passed over until the manager is asked
// whether it can be loaded by now.
const refusalPause = time.Minute

// startOne starts an instance, and remembers a refusal by the manager.
func (c *change) startOne(ctx context.Context, index int32) error {
	err := c.fleet.manager.start(ctx, c.template.unit(index))
	refused, isRefused := errors.AsType[*refusedError](err)
	c.with(func(b *book) {
		delete(b.refused, index)
		if isRefused {
			b.refused[index] = refusedStart{masked: refused.masked, said: refused.said, at: time.Now()}
		}
	})
	return err
}

// passesOver reports whether another index may take the place of a refused one.
func (t *target) passesOver(index int32) (passes bool) {
	t.with(func(b *book) {
		found, refused := b.refused[index]
		passed := 0
		for _, r := range b.refused {
			if r.masked == found.masked {
				passed++
			}
		}
		passes = found.masked && passed <= maskedOver || !found.masked && refused && passed <= refusedOver
	})
	return passes
}

// instead gives the place of a refused index to the next free one, and returns that.
func (c *change) instead(refused int32) int32 {
	c.alter(func(m *members) { m.Started = m.Started.without(refused) })
	next := c.candidates(1)[0]
	c.alter(func(m *members) {
		m.Started = m.Started.with(next)
		if c.fleet.config.Enable {
			*m = m.disabling(indexes{refused}).enabling(indexes{next})
		}
	})
	return next
}

func (t *target) knownMasked() (masked indexes) {
	t.with(func(b *book) {
		for _, index := range slices.Sorted(maps.Keys(b.refused)) {
			if b.refused[index].masked {
				masked = append(masked, index)
			}
		}
	})
	return masked
}

// unmask forgets the masked instances that are not any more, by the states of their unit
// files.
func (t *target) unmask(known indexes, states map[string]string) {
	t.with(func(b *book) {
		for _, index := range known {
			if !isMasked(states[t.template.unit(index)]) {
				delete(b.refused, index)
			}
		}
	})
}

// overdue returns the refused instances that the manager is to be asked about, and
// forgets those that somebody else has started.
func (b *book) overdue(units map[int32]unit, now time.Time) indexes {
	maps.DeleteFunc(b.refused, func(index int32, _ refusedStart) bool { return units[index].state.alive() })
	var overdue indexes
	for _, index := range slices.Sorted(maps.Keys(b.refused)) {
		if r := b.refused[index]; !r.masked && !b.members.has(index) && now.Sub(r.at) >= refusalPause {
			overdue = append(overdue, index)
		}
	}
	return overdue
}

// limited returns the instances that were to be started more, and whose start the
// manager did not begin because there were too many before: few of them, as others take
// their places. Those that hpad started again keep theirs: they end all the time, and so
// would others.
func (b *book) limited(units map[int32]unit, known *particulars) indexes {
	var limited indexes
	passed := 0
	for _, index := range slices.Sorted(maps.Keys(units)) {
		u := units[index]
		d, _ := known.of(u.Name)
		switch {
		case u.state != failed || !d.limited:
		case b.members.Started.has(index) && b.mended[index].times == 0:
			limited = append(limited, index)
		case !b.members.has(index):
			passed++
		}
	}
	return limited[:min(len(limited), max(refusedOver-passed, 0))]
}

// allowedAgain reports whether a failed instance may be started that was started too
// often before.
func (c *change) allowedAgain(index int32) bool {
	u := c.units[index]
	d, _ := c.fleet.known.of(u.Name)
	return u.state == failed && d.limited && time.Now().After(d.allowed)
}

// askAgain asks the manager about refused instances: those that it can load by now are
// free again.
func (c *change) askAgain(ctx context.Context, overdue indexes) error {
	for _, index := range overdue {
		state, err := c.fleet.manager.property(ctx, c.template.unit(index), loadState)
		if err != nil && !goesOn(err) {
			return err
		}
		c.with(func(b *book) {
			if r := b.refused[index]; err == nil && state == "loaded" {
				delete(b.refused, index)
			} else {
				r.at = time.Now()
				b.refused[index] = r
			}
		})
	}
	return nil
}

// refusing returns that others take the places of refused instances, and why the first
// of them was.
func (b *book) refusing() *policy.Notice {
	var passed indexes
	for index, r := range b.refused {
		if !r.masked && !b.members.has(index) {
			passed = passed.with(index)
		}
	}
	if len(passed) == 0 {
		return nil
	}
	return &policy.Notice{Condition: UnitsRefused, Reason: UnitRefused, Message: fmt.Sprintf("%s cannot be started: %s; other indexes take their places until that is mended (systemd-analyze verify, systemctl cat; then systemctl daemon-reload)",
		some(b.template.units(passed)), b.refused[passed[0]].said)}
}

func (b *book) forbidden(units map[int32]unit) *policy.Notice {
	var all indexes
	for index, u := range units {
		if u.masked() {
			all = all.with(index)
		}
	}
	for index, r := range b.refused {
		if r.masked {
			all = all.with(index)
		}
	}
	if len(all) == 0 {
		return nil
	}
	return &policy.Notice{Condition: UnitsMasked, Reason: UnitMasked, Message: some(b.template.units(all)) + " are masked; other indexes take their places until systemctl unmask allows these again"}
}
