package systemd

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
)

// The conditions of targets with instances that do not do as they should.
const (
	// UnitsFailing: instances have failed, or end and are started again all the
	// time.
	UnitsFailing policy.ConditionType = "UnitsFailing"
	// UnitsMissing: instances that hpad started do not run.
	UnitsMissing policy.ConditionType = "UnitsMissing"
	// UnitsMasked: somebody forbade single instances, so that others take their
	// places.
	UnitsMasked policy.ConditionType = "UnitsMasked"
	// UnitFilesFailing: instances could not be enabled or disabled, so that another
	// count than the target's would be started at boot.
	UnitFilesFailing policy.ConditionType = "UnitFilesFailing"
	// UnitsStuck: instances take very long to start or to stop.
	UnitsStuck policy.ConditionType = "UnitsStuck"
	// ReloadNeeded: the manager has not read unit files that changed.
	ReloadNeeded policy.ConditionType = "ReloadNeeded"
)

// The reasons of these conditions.
const (
	// StartLimitHit: the manager starts an instance no more because it ended too
	// often.
	StartLimitHit = "StartLimitHit"
	// UnitFailed: an instance failed and stays so.
	UnitFailed = "UnitFailed"
	// UnitRestarting: an instance ended and waits for its own Restart=.
	UnitRestarting = "UnitRestarting"
	// UnitStopped: an instance that hpad started ended, or was stopped by somebody
	// else, and is started again.
	UnitStopped = "UnitStopped"
	// StartRefused: an instance could not be started again.
	StartRefused = "StartRefused"
	// UnitMasked: an instance is masked.
	UnitMasked = "UnitMasked"
	// StartHangs: an instance was started long ago and is not active.
	StartHangs = "StartHangs"
	// StopHangs: an instance was stopped long ago and is not gone.
	StopHangs = "StopHangs"
	// UnitFileChanged: the file of an instance changed since the manager read it.
	UnitFileChanged = "UnitFileChanged"
	// EnableRefused: the manager does not enable or disable an instance.
	EnableRefused = "EnableRefused"
)

// tellRestarts is how many restarts of an instance make a notice.
const tellRestarts = 3

// notices returns those of instances that do not do as they should.
func (s *state) notices(units map[int32]unit, known *detailCache, now time.Time) []policy.Notice {
	var notices []policy.Notice
	for _, notice := range []*policy.Notice{
		s.failing(units, known), s.missing(units), s.forbidden(units),
		s.unitFilesNotice(), s.stuck(units, known, now), s.stale(units, known),
	} {
		if notice != nil {
			notices = append(notices, *notice)
		}
	}
	return notices
}

// failing returns that instances failed; those that are not started again go first.
func (s *state) failing(units map[int32]unit, known *detailCache) *policy.Notice {
	byReason := map[string][]string{}
	for _, index := range slices.Sorted(maps.Keys(units)) {
		u := units[index]
		d, _ := known.of(u.Name)
		reason := ""
		switch {
		case s.members.Leaving.has(index):
		case u.state == failed && d.gaveUp:
			reason = StartLimitHit
		case u.state == failed:
			reason = UnitFailed
		case u.restarting():
			reason = UnitRestarting
		}
		if reason != "" {
			byReason[reason] = append(byReason[reason], fmt.Sprintf("%s (%s)", u.Name, d.how()))
		}
	}
	for _, reason := range []string{StartLimitHit, UnitFailed, UnitRestarting} {
		if names := byReason[reason]; len(names) > 0 {
			return &policy.Notice{Condition: UnitsFailing, Reason: reason, Message: some(names) + remedies[reason]}
		}
	}
	return nil
}

var remedies = map[string]string{
	StartLimitHit:  " ended or were started so often that the manager does not start them any more (StartLimitBurst=); systemctl reset-failed lets hpad start them again",
	UnitFailed:     " failed and are not counted; systemctl reset-failed lets hpad start them again, Restart=always in the unit file lets the manager do so",
	UnitRestarting: " ended and wait to be started again by their own Restart=",
}

// how is a result for a person.
func (d details) how() string {
	how := "result: " + d.result
	if d.result == "" || d.result == "success" {
		how = "it ended by itself"
	}
	if d.restarts > 0 {
		how += fmt.Sprintf(", restarts: %d", d.restarts)
	}
	return how
}

// missing returns the notice of instances that end again and again, or cannot be started.
func (s *state) missing(units map[int32]unit) *policy.Notice {
	var names []string
	problem := ""
	if s.repairErr != nil {
		problem = s.repairErr.Error()
	}
	for _, index := range s.members.Started {
		gone := units[index].state == absent
		refused, isRefused := s.refused[index]
		if gone && isRefused {
			problem = cmp.Or(problem, refused)
		}
		if gone && (isRefused || s.repairErr != nil || s.restarts[index].Starts > 0) || s.restarts[index].Starts >= tellRestarts {
			names = append(names, s.template.unit(index))
		}
	}
	switch {
	case len(names) == 0:
		return nil
	case problem != "":
		return &policy.Notice{Condition: UnitsMissing, Reason: StartRefused, Message: fmt.Sprintf("%s should run and cannot be started: %s", some(names), problem)}
	}
	return &policy.Notice{Condition: UnitsMissing, Reason: UnitStopped, Message: some(names) + " do not stay active, though hpad starts them again: they end by themselves, a condition or dependency of theirs is not met, or somebody stops them"}
}

// forbidden returns the notice of masked instances below the highest one that hpad uses.
func (s *state) forbidden(units map[int32]unit) *policy.Notice {
	all := s.masked
	for index, u := range units {
		if u.masked() {
			all = all.with(index)
		}
	}
	used := append(indexes{-1}, s.members.all()...)
	all = slices.DeleteFunc(slices.Clone(all), func(index int32) bool { return index > slices.Max(used) })
	if len(all) == 0 {
		return nil
	}
	return &policy.Notice{Condition: UnitsMasked, Reason: UnitMasked, Message: some(s.template.units(all)) + " are masked; hpad uses other indexes instead, until systemctl unmask"}
}

func some(names []string) string { return targets.Some(names, ", ") }
