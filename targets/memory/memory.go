// Package memory stores records of instances in the fleet's store ([Records]), and determines
// when they last started ([StartTime]) and when their readiness last changed ([ReadinessChange]).
package memory

import "time"

// ReadinessChange returns the time of an instance's last readiness change. The argument turned
// reports whether the readiness has changed or the instance was restarted since the last known
// change, whose time is before. The argument since is the change time that the platform reports.
// Both times may be zero.
//
// The platform's time is used if it is later than before and not in the future. Otherwise a new
// change gets the time now.
func ReadinessChange(turned bool, before, since, now time.Time) time.Time {
	switch {
	case !turned && !before.IsZero():
		return before
	case since.IsZero() || since.After(now) || !since.After(before):
		return now
	}
	return since
}

// StartTime returns the start time of an instance: the time that the platform reports, or otherwise
// the last known start time, before. If both are zero and the instance is running, it returns now.
// The result restarted reports whether the instance was restarted.
func StartTime(reported, before time.Time, running bool, now time.Time) (started time.Time, restarted bool) {
	if reported.IsZero() {
		reported = before
	}
	if reported.IsZero() && running {
		reported = now
	}
	return reported, !before.IsZero() && reported.After(before)
}
