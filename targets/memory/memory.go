// Package memory stores records of instances in the fleet's store ([Records]), and determines
// when they last started ([StartTime]) and when their readiness last changed ([ReadinessChange]).
package memory

import "time"

// ReadinessChange returns the time of an instance's last readiness change. turned reports that the
// instance has changed or was restarted since before, the time of the last known change. since
// is the time of the change that the platform reports. Both times may be zero.
//
// since applies if it is after before and not after now. Otherwise the time of the change is
// now.
func ReadinessChange(turned bool, before, since, now time.Time) time.Time {
	switch {
	case !turned && !before.IsZero():
		return before
	case since.IsZero() || since.After(now) || !since.After(before):
		return now
	}
	return since
}

// StartTime returns the start time of an instance: said, the time that the platform reports;
// otherwise before, the last known start; otherwise now, if the instance is running. again
// reports whether it was restarted.
func StartTime(said, before time.Time, running bool, now time.Time) (started time.Time, again bool) {
	if said.IsZero() {
		said = before
	}
	if said.IsZero() && running {
		said = now
	}
	return said, !before.IsZero() && said.After(before)
}
