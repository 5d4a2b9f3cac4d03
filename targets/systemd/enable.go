package systemd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hpad/hpad/policy"
)

var errNoInstall = errors.New("the template has no [Install] section")

// followPause is how long after a failure unit files are enabled and disabled again.
const followPause = time.Minute

// enabling returns the members with started instances still to be enabled.
func (m members) enabling(started indexes) members {
	for _, index := range started {
		m.Enable, m.Disable = m.Enable.with(index), m.Disable.without(index)
	}
	return m
}

// disabling returns the members with victims still to be disabled.
func (m members) disabling(victims indexes) members {
	for _, index := range victims {
		m.Enable, m.Disable = m.Enable.without(index), m.Disable.with(index)
	}
	return m
}

// settled returns the members without instances to be enabled that are not wanted, and
// without such to be disabled that are hpad's own.
func (m members) settled() members {
	m.Enable = slices.DeleteFunc(slices.Clone(m.Enable), func(index int32) bool { return !m.Started.has(index) })
	m.Disable = slices.DeleteFunc(slices.Clone(m.Disable), func(index int32) bool { return m.Started.has(index) })
	return m
}

// behind reports whether it is time to enable or disable what still has to be.
func (b *book) behind(now time.Time) bool {
	enable, disable := b.left()
	refused := b.unfollowed != nil && !errors.Is(b.unfollowed, errLost)
	return len(enable)+len(disable) > 0 && (!refused || now.Sub(b.followed) >= followPause)
}

// left returns the instances to be enabled and disabled. The manager disables nothing
// that is masked, which does not start anyway.
func (b *book) left() (enable, disable indexes) {
	disable = slices.DeleteFunc(slices.Clone(b.members.Disable), func(index int32) bool { return b.refused[index].masked })
	return b.members.Enable, disable
}

// follow enables and disables what still has to be, so that the manager begins with the
// count. What is cut short is done with a later reading.
func (c *change) follow(ctx context.Context) error {
	err := c.findMasked(ctx, c.current().Disable)
	var enable, disable indexes
	c.with(func(b *book) { enable, disable = b.left() })
	if len(enable)+len(disable) == 0 {
		return err
	}
	if err == nil {
		err = c.inTurn(ctx, enable, c.fleet.manager.enable, func(m *members, index int32) { m.Enable = m.Enable.without(index) })
	}
	if err == nil || goesOn(err) {
		err = cmp.Or(err, c.inTurn(ctx, disable, c.fleet.manager.disable, func(m *members, index int32) { m.Disable = m.Disable.without(index) }))
	}
	c.with(func(b *book) { b.unfollowed, b.followed = err, time.Now() })
	return err
}

// findMasked enters which of some instances are masked.
func (c *change) findMasked(ctx context.Context, among indexes) error {
	var patterns []string
	for _, name := range c.template.units(among) {
		patterns = append(patterns, escape(name))
	}
	states, err := c.fleet.fileStates(ctx, patterns)
	c.with(func(b *book) {
		for _, index := range among {
			if isMasked(states[c.template.unit(index)]) {
				b.refused[index] = refusedStart{masked: true, said: "the unit is masked"}
			}
		}
	})
	return err
}

// inTurn does something to the unit files of instances, to each alone where one of them
// keeps the others from it, and calls done for each that it was done to.
func (c *change) inTurn(ctx context.Context, all indexes, do func(context.Context, []string) error, done func(*members, int32)) error {
	if len(all) == 0 {
		return nil
	}
	err := do(ctx, c.template.units(all))
	switch {
	case err == nil:
		c.alter(func(m *members) {
			for _, index := range all {
				done(m, index)
			}
		})
	case len(all) > 1 && goesOn(err) && !errors.Is(err, errNoInstall):
		err = nil
		for _, index := range all {
			each := c.inTurn(ctx, indexes{index}, do, done)
			if err = cmp.Or(err, each); each != nil && !goesOn(each) {
				break
			}
		}
	}
	return err
}

func (b *book) unsettled() *policy.Notice {
	var left []string
	enable, disable := b.left()
	if names := b.template.units(enable); len(names) > 0 {
		left = append(left, some(names)+" should be enabled")
	}
	if names := b.template.units(disable); len(names) > 0 {
		left = append(left, some(names)+" should be disabled")
	}
	if b.unfollowed == nil || len(left) == 0 {
		return nil
	}
	return &policy.Notice{Condition: UnitFilesFailing, Reason: EnableRefused, Message: fmt.Sprintf("%s: %v; hpad tries again every %v, until then the manager begins with another count when it starts", strings.Join(left, ", "), b.unfollowed, followPause)}
}
