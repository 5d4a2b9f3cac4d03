package systemd

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/hpad/hpad/policy"
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
func (b *book) notices(units map[int32]unit, known *particulars, now time.Time) []policy.Notice {
	var notices []policy.Notice
	for _, notice := range []*policy.Notice{
		b.failing(units, known), b.missing(units), b.forbidden(units),
		b.unsettled(), b.stuck(units, known, now), b.stale(units, known),
	} {
		if notice != nil {
			notices = append(notices, *notice)
		}
	}
	return notices
}

// failing returns that instances failed; those that are not started again go first.
func (b *book) failing(units map[int32]unit, known *particulars) *policy.Notice {
	byReason := map[string][]string{}
	for _, index := range slices.Sorted(maps.Keys(units)) {
		u := units[index]
		d, _ := known.of(u.Name)
		reason := ""
		switch {
		case b.members.Leaving.has(index):
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

// missing returns that instances are started again and again, or cannot be.
func (b *book) missing(units map[int32]unit) *policy.Notice {
	var names []string
	trouble := ""
	if b.trouble != nil {
		trouble = b.trouble.Error()
	}
	for _, index := range b.members.Started {
		gone := units[index].state == absent
		refused, isRefused := b.refused[index]
		if gone && isRefused {
			trouble = cmp.Or(trouble, refused.said)
		}
		if gone && (isRefused || b.trouble != nil || b.restarts[index].Starts > 0) || b.restarts[index].Starts >= tellRestarts {
			names = append(names, b.template.unit(index))
		}
	}
	switch {
	case len(names) == 0:
		return nil
	case trouble != "":
		return &policy.Notice{Condition: UnitsMissing, Reason: StartRefused, Message: fmt.Sprintf("%s should run and cannot be started: %s", some(names), trouble)}
	}
	return &policy.Notice{Condition: UnitsMissing, Reason: UnitStopped, Message: some(names) + " do not stay active, though hpad starts them again: they end by themselves, a condition or dependency of theirs is not met, or somebody stops them"}
}

// shown is how many names a message has.
const shown = 3

// some joins names, as many as a person wants to read.
func some(names []string) string {
	if more := len(names) - shown; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:shown], ", "), more)
	}
	return strings.Join(names, ", ")
}
