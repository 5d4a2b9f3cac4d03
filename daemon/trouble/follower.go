package trouble

import (
	"slices"
	"time"

	"go.uber.org/zap"
)

// A cause that was reported counts as known for knownFor: when it comes back within
// that time it is counted, and reported only once it has lasted for lastingAfter. Of
// more than knownCauses different ones within that time the rest is counted too.
const (
	knownFor     = 10 * time.Minute
	lastingAfter = 2 * time.Minute
	knownCauses  = 8
)

// Follower follows the cause of what is wrong with something and finds what is
// news of it. A cause is news when it is another one than was reported last; causes
// that take turns are counted instead. The zero value is ready to use: nothing is
// wrong, and that was reported.
type Follower struct {
	// Cause is the present one, empty while nothing is wrong, and Since is when it
	// began.
	Cause string
	Since time.Time
	// wrong is since when something is wrong, whatever its cause; it stays when that
	// is over.
	wrong time.Time
	// last is the cause that was reported last, known are those reported within knownFor.
	last  string
	known []knownCause
	// Untold counts the changes that were not reported.
	Untold Flapping
}

type knownCause struct {
	cause    string
	reported time.Time
}

// Flapping counts changes of a cause, from the time of the first; 0 means none.
type Flapping struct {
	Changes int
	From    time.Time
}

// Follow takes the cause at now and reports whether it is news; with always any change
// is. Flapped are the changes before this one that were not.
func (f *Follower) Follow(cause string, now time.Time, always bool) (news bool, flapped Flapping) {
	changed := cause != f.Cause
	if changed {
		if f.Cause == "" {
			f.wrong = now
		}
		f.Cause, f.Since = cause, now
	}
	steady := cause == f.last && f.Untold.Changes == 0
	passing := now.Sub(f.Since) < lastingAfter && (cause == f.last || f.isKnown(cause, now))
	if steady || passing && !always {
		if changed {
			f.Untold.add(now)
		}
		return false, Flapping{}
	}
	flapped, f.Untold = f.Untold, Flapping{}
	if cause != f.last && !changed { // the last of them is what is reported now
		flapped.Changes--
	}
	f.last = cause
	f.known = append(slices.DeleteFunc(f.known, func(k knownCause) bool { return k.cause == cause }), knownCause{cause, now})
	return true, flapped
}

// isKnown reports whether a cause was reported lately, or too many others were.
func (f *Follower) isKnown(cause string, now time.Time) bool {
	f.known = slices.DeleteFunc(f.known, func(k knownCause) bool { return now.Sub(k.reported) >= knownFor || k.reported.After(now) })
	return len(f.known) >= knownCauses || slices.ContainsFunc(f.known, func(k knownCause) bool { return k.cause == cause })
}

// Follows reports whether something was wrong: if not, it is the zero value.
func (f *Follower) Follows() bool { return f.Cause != "" || len(f.known) > 0 || f.Untold.Changes > 0 }

// Known returns a follower of a cause that was reported before, and since when it is.
func Known(cause string, since time.Time) Follower {
	return Follower{Cause: cause, last: cause, Since: since, wrong: since}
}

// Fields returns what a line of the log says of news besides the error: since when
// that is so where it is not new, since when something was wrong where that is
// over, and the changes that were not reported. Wall converts times for people.
func (f *Follower) Fields(flapped Flapping, wall func(time.Time) time.Time) []zap.Field {
	var fields []zap.Field
	switch {
	case f.Cause != "":
		fields = append(fields, zap.Time("since", wall(f.Since)))
	case !f.wrong.IsZero():
		fields = append(fields, zap.Time("failed_since", wall(f.wrong)))
	}
	if flapped.Changes > 0 {
		fields = append(fields, zap.Int("changes", flapped.Changes), zap.Time("changes_since", wall(flapped.From)))
	}
	return fields
}

func (n *Flapping) add(now time.Time) {
	if n.Changes == 0 {
		n.From = now
	}
	n.Changes++
}
