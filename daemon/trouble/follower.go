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
// wrong, and that was reported. As long as nothing is it takes a word.
type Follower struct{ course *course }

// course is what a Follower has followed.
type course struct {
	// cause is the present one, and since is when it began.
	cause string
	since time.Time
	// wrong is since when something is wrong, whatever its cause; it stays when that
	// is over.
	wrong time.Time
	// last is the cause that was reported last, known are those reported within knownFor.
	last  string
	known []knownCause
	// untold counts the changes that were not reported.
	untold Flapping
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

// Cause returns the present cause, empty while nothing is wrong.
func (f Follower) Cause() string {
	if f.course == nil {
		return ""
	}
	return f.course.cause
}

// Since returns when the present cause began; zero where nothing was ever wrong.
func (f Follower) Since() time.Time {
	if f.course == nil {
		return time.Time{}
	}
	return f.course.since
}

// Untold counts the changes that were not reported.
func (f Follower) Untold() Flapping {
	if f.course == nil {
		return Flapping{}
	}
	return f.course.untold
}

// Follow takes the cause at now and reports whether it is news; with always any change
// is. Flapped are the changes before this one that were not.
func (f *Follower) Follow(cause string, now time.Time, always bool) (news bool, flapped Flapping) {
	if f.course == nil {
		if cause == "" {
			return false, Flapping{}
		}
		f.course = new(course)
	}
	news, flapped = f.course.follow(cause, now, always)
	if cause == "" && f.Rests(now) {
		f.course = nil
	}
	return news, flapped
}

func (c *course) follow(cause string, now time.Time, always bool) (news bool, flapped Flapping) {
	changed := cause != c.cause
	if changed {
		if c.cause == "" {
			c.wrong = now
		}
		c.cause, c.since = cause, now
	}
	steady := cause == c.last && c.untold.Changes == 0
	passing := now.Sub(c.since) < lastingAfter && (cause == c.last || c.isKnown(cause, now))
	if steady || passing && !always {
		if changed {
			c.untold.add(now)
		}
		return false, Flapping{}
	}
	flapped, c.untold = c.untold, Flapping{}
	if cause != c.last && !changed { // the last of them is what is reported now
		flapped.Changes--
	}
	c.last = cause
	c.known = append(slices.DeleteFunc(c.known, func(k knownCause) bool { return k.cause == cause }), knownCause{cause, now})
	return true, flapped
}

// isKnown reports whether a cause was reported lately, or too many others were.
func (c *course) isKnown(cause string, now time.Time) bool {
	c.forget(now)
	return len(c.known) >= knownCauses || slices.ContainsFunc(c.known, func(k knownCause) bool { return k.cause == cause })
}

// forget forgets the causes that do not count as known any more.
func (c *course) forget(now time.Time) {
	c.known = slices.DeleteFunc(c.known, func(k knownCause) bool { return now.Sub(k.reported) >= knownFor || k.reported.After(now) })
}

// Follows reports whether something was wrong: if not, it is the zero value.
func (f Follower) Follows() bool { return f.course != nil }

// Rests reports whether the present cause was reported, and no change before it counts
// any more: what comes of a follower that is made of that cause by [Known] is the same.
func (f Follower) Rests(now time.Time) bool {
	if f.course == nil {
		return true
	}
	f.course.forget(now)
	return f.course.cause == f.course.last && f.course.untold.Changes == 0 && len(f.course.known) == 0
}

// Known returns a follower of a cause that was reported before, and since when it is.
func Known(cause string, since time.Time) Follower {
	return Follower{&course{cause: cause, last: cause, since: since, wrong: since}}
}

// Fields returns what a line of the log says of news besides the error: since when
// that is so where it is not new, since when something was wrong where that is
// over, and the changes that were not reported. Wall converts times for people.
func (f Follower) Fields(flapped Flapping, wall func(time.Time) time.Time) []zap.Field {
	var fields []zap.Field
	switch {
	case f.course == nil:
	case f.course.cause != "":
		fields = append(fields, zap.Time("since", wall(f.course.since)))
	case !f.course.wrong.IsZero():
		fields = append(fields, zap.Time("failed_since", wall(f.course.wrong)))
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
