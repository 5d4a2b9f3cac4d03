package memory

import "time"

// Turned answers when an instance became as ready, or unready, as it is now.
// Before is when it turned last, zero where it was not known; turned says that it
// is not as it was then, or started again since. Since is when the platform says
// that it turned, zero where it does not say.
//
// That time counts where it is after before and not after now. Where it is not,
// the instance turned while hpad looked: now.
func Turned(turned bool, before, since, now time.Time) time.Time {
	switch {
	case !turned && !before.IsZero():
		return before
	case since.IsZero() || since.After(now) || !since.After(before):
		return now
	}
	return since
}
