package systemd

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/hpad/hpad/policy"
)

// refusedStart is the manager's reason for not starting an instance.
type refusedStart struct {
	// masked reports that an operator masked the unit.
	masked bool
	said   string
}

// maskedOver is the maximum number of masked instances that give their places to others.
const maskedOver = 100

// startOne starts an instance, and stores a refusal by the manager.
func (c *change) startOne(ctx context.Context, index int32) error {
	err := c.fleet.manager.start(ctx, c.template.unit(index))
	refused, isRefused := errors.AsType[*refusedError](err)
	c.with(func(b *book) {
		delete(b.refused, index)
		if isRefused {
			b.refused[index] = refusedStart{masked: refused.masked, said: refused.said}
		}
	})
	return err
}

// passesOver reports whether another index takes the place of an instance because this one
// is masked.
func (t *target) passesOver(index int32) (passes bool) {
	masked := t.knownMasked()
	return masked.has(index) && len(masked) <= maskedOver
}

// instead gives the place of a masked index to the next free one, and returns that.
func (c *change) instead(masked int32) int32 {
	c.alter(func(m *members) { m.Started = m.Started.without(masked) })
	next := c.candidates(1)[0]
	c.alter(func(m *members) {
		m.Started = m.Started.with(next)
		if c.fleet.config.Enable {
			*m = m.disabling(indexes{masked}).enabling(indexes{next})
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
