// Package memory stores records of instances in the fleet's store ([Records]), and determines the
// times of their last start ([Begun]) and readiness change ([Turned]).
package memory

import "time"

// Turned returns the time of an instance's last readiness change. turned reports that the
// instance has changed or was restarted since before, the time of the last known change, which
// may be zero. since is the platform's time of the change, which may be zero.
//
// The platform's time applies if it is after before and not after now; otherwise the instance
// changed now.
func Turned(turned bool, before, since, now time.Time) time.Time {
	switch {
	case !turned && !before.IsZero():
		return before
	case since.IsZero() || since.After(now) || !since.After(before):
		return now
	}
	return since
}

// Begun returns the start of an instance: the platform's time, or the time before, or now if
// it is first seen running. again reports that it was restarted.
func Begun(said, before time.Time, running bool, now time.Time) (started time.Time, again bool) {
	if said.IsZero() {
		said = before
	}
	if said.IsZero() && running {
		said = now
	}
	return said, !before.IsZero() && said.After(before)
}
