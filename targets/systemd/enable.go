package systemd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hpad/hpad/policy"
)

var errNoInstall = errors.New("the template has no [Install] section")

// toEnable returns the members with the started instances added to the instances to enable.
func (m members) toEnable(started indexes) members {
	for _, index := range started {
		m.Enable, m.Disable = m.Enable.with(index), m.Disable.without(index)
	}
	return m
}

// toDisable returns the members with the victims added to the instances to disable.
func (m members) toDisable(victims indexes) members {
	for _, index := range victims {
		m.Enable, m.Disable = m.Enable.without(index), m.Disable.with(index)
	}
	return m
}

// settled returns the members without obsolete changes: it drops instances to enable that hpad
// does not keep running, and instances to disable that it does.
func (m members) settled() members {
	m.Enable = slices.DeleteFunc(slices.Clone(m.Enable), func(index int32) bool { return !m.Started.has(index) })
	m.Disable = slices.DeleteFunc(slices.Clone(m.Disable), func(index int32) bool { return m.Started.has(index) })
	return m
}

// pendingFiles returns the instances to enable and to disable. It omits masked instances from
// the latter, because they do not start at boot, and the manager ignores a request to disable
// them.
func (s *state) pendingFiles() (enable, disable indexes) {
	disable = slices.DeleteFunc(slices.Clone(s.members.Disable), s.masked.has)
	return s.members.Enable, disable
}

// updateUnitFiles enables and disables the pending instances, so that the manager starts the
// right count at boot. The next reading retries failed changes.
func (c *change) updateUnitFiles(ctx context.Context) error {
	var enable, disable indexes
	c.with(func(s *state) { enable, disable = s.pendingFiles() })
	var failed error
	apply := func(all indexes, call func(context.Context, []string) error, done func(*members, int32)) {
		for _, index := range all {
			if failed != nil && (!isUnitError(failed) || errors.Is(failed, errNoInstall)) {
				return
			}
			err := call(ctx, []string{c.template.unit(index)})
			failed = cmp.Or(failed, err)
			if err == nil {
				c.alter(func(m *members) { done(m, index) })
			}
		}
	}
	apply(enable, c.fleet.manager.enable, func(m *members, index int32) { m.Enable = m.Enable.without(index) })
	apply(disable, c.fleet.manager.disable, func(m *members, index int32) { m.Disable = m.Disable.without(index) })
	c.with(func(s *state) { s.unitFileErr = failed })
	return failed
}

func (s *state) unitFilesNotice() *policy.Notice {
	var pending []string
	enable, disable := s.pendingFiles()
	if names := s.template.units(enable); len(names) > 0 {
		pending = append(pending, some(names)+" should be enabled")
	}
	if names := s.template.units(disable); len(names) > 0 {
		pending = append(pending, some(names)+" should be disabled")
	}
	if s.unitFileErr == nil || len(pending) == 0 {
		return nil
	}
	return &policy.Notice{
		Condition: UnitFilesFailing, Reason: EnableRefused,
		Message: fmt.Sprintf("%s: %v; hpad tries again with each reading; until then the manager starts a different count at boot", strings.Join(pending, ", "), s.unitFileErr),
	}
}
