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

// The conditions of a target.
const (
	// UnitsFailing means that instances have failed or restart repeatedly.
	UnitsFailing policy.ConditionType = "UnitsFailing"
	// UnitsMissing means that instances that hpad started are no longer running.
	UnitsMissing policy.ConditionType = "UnitsMissing"
)

// The reasons for these conditions.
const (
	// StartLimitHit means that the manager no longer restarts an instance because it ended too
	// often.
	StartLimitHit = "StartLimitHit"
	// UnitFailed means that an instance has failed and is not restarted.
	UnitFailed = "UnitFailed"
	// UnitRestarting means that an instance has ended, and waits for its own Restart= or was
	// restarted recently.
	UnitRestarting = "UnitRestarting"
	// unitStopped means that an instance that hpad started has ended or was stopped, and is
	// restarted.
	unitStopped = "UnitStopped"
	// StartRefused means that an instance could not be restarted.
	StartRefused = "StartRefused"
)

// reportedRestarts is the lowest number of restarts of an instance that is reported in a notice.
const reportedRestarts = 3

func (s *state) notices(units map[int32]unit, cache *detailCache, now time.Time) []policy.Notice {
	var notices []policy.Notice
	for _, notice := range []*policy.Notice{s.failingNotice(units, cache, now), s.missingNotice(units)} {
		if notice != nil {
			notices = append(notices, *notice)
		}
	}
	return notices
}

// failingNotice reports the most severe failure. Instances that are not restarted are the most
// severe.
func (s *state) failingNotice(units map[int32]unit, cache *detailCache, now time.Time) *policy.Notice {
	byReason := map[string][]string{}
	for _, index := range slices.Sorted(maps.Keys(units)) {
		u := units[index]
		d, _ := cache.get(u.Name)
		reason := ""
		switch {
		case s.members.Leaving.has(index):
		case u.state == failed && d.gaveUp:
			reason = StartLimitHit
		case u.state == failed:
			reason = UnitFailed
		case d.restartedRecently(u, now):
			reason = UnitRestarting
		}
		if reason != "" {
			byReason[reason] = append(byReason[reason], fmt.Sprintf("%s (%s)", u.Name, d.cause()))
		}
	}
	for _, reason := range []string{StartLimitHit, UnitFailed, UnitRestarting} {
		if names := byReason[reason]; len(names) > 0 {
			return &policy.Notice{Condition: UnitsFailing, Reason: reason, Message: joinNames(names) + remedies[reason]}
		}
	}
	return nil
}

var remedies = map[string]string{
	StartLimitHit:  " have reached their start limit (StartLimitBurst=); run systemctl reset-failed to let hpad start them again",
	UnitFailed:     " failed and are not counted; run systemctl reset-failed to let hpad start them again, or set Restart=always in the unit file",
	UnitRestarting: " exited and are restarted automatically (Restart=)",
}

// cause describes the result of the last run.
func (d details) cause() string {
	cause := "result: " + d.result
	if d.result == "" || d.result == "success" {
		cause = "it exited on its own"
	}
	if d.exit != "" {
		cause += ", " + d.exit
	}
	if d.restarts > 0 {
		cause += fmt.Sprintf(", restarts: %d", d.restarts)
	}
	return cause
}

// missingNotice reports instances that end repeatedly or cannot be started.
func (s *state) missingNotice(units map[int32]unit) *policy.Notice {
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
		if gone && (isRefused || s.repairErr != nil || s.restarts[index].Starts > 0) || s.restarts[index].Starts >= reportedRestarts {
			names = append(names, s.template.unit(index))
		}
	}
	switch {
	case len(names) == 0:
		return nil
	case problem != "":
		return &policy.Notice{Condition: UnitsMissing, Reason: StartRefused, Message: fmt.Sprintf("%s should be running but cannot be started: %s", joinNames(names), problem)}
	}
	return &policy.Notice{Condition: UnitsMissing, Reason: unitStopped, Message: joinNames(names) + " do not stay active: they exit on their own, a condition or dependency is not met, or an external command stops them"}
}

func joinNames(names []string) string { return targets.FirstThree(names, ", ") }
