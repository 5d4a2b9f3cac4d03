package memory

import "time"

// Turned returns when an instance became as ready, or unready, as it is now. Before is
// when it turned last, zero where it was not known; turned is whether it is not as it
// was then, or started again since. Since is when it turned by the platform, zero where
// that has no time.
//
// That time counts where it is after before and not after now. Where it is not, the
// instance turned while hpad looked: now.
func Turned(turned bool, before, since, now time.Time) time.Time {
	switch {
	case !turned && !before.IsZero():
		return before
	case since.IsZero() || since.After(now) || !since.After(before):
		return now
	}
	return since
}

// Begun returns when an instance started: when its platform says, or else as before, or
// now where it is first seen running. Again reports whether it did so anew.
func Begun(said, before time.Time, running bool, now time.Time) (started time.Time, again bool) {
	if said.IsZero() {
		said = before
	}
	if said.IsZero() && running {
		said = now
	}
	return said, !before.IsZero() && said.After(before)
}
