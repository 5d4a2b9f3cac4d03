package problem

import (
	"slices"
	"time"

	"go.uber.org/zap"
)

// A reported cause remains known for knownFor. If it returns within that time, it is only counted.
// Once it has lasted for lastingAfter, it is reported again. At most knownCauses causes are known
// at a time; further causes are only counted.
const (
	knownFor     = 10 * time.Minute
	lastingAfter = 2 * time.Minute
	knownCauses  = 8
)

// Deduper suppresses repeated reports of a problem. A cause is news if it differs from the last
// reported cause. Changes between alternating causes are counted instead. The zero value has no
// problem and needs one word of memory.
type Deduper struct{ history *history }

// history is the state of a Deduper with a current or recent problem.
type history struct {
	// cause is the current cause, and since is the time when it began.
	cause string
	since time.Time
	// wrong is the start time of the problem, regardless of its cause. It is retained after the
	// problem ended.
	wrong time.Time
	// last is the last reported cause. known contains the causes reported within knownFor.
	last  string
	known []knownCause
	// unreported counts the unreported changes.
	unreported Flapping
}

type knownCause struct {
	cause    string
	reported time.Time
}

// Flapping is the number of changes to a cause and the time of the first change.
type Flapping struct {
	Changes int
	From    time.Time
}

// Cause returns the current cause, or "" if there is no problem.
func (f Deduper) Cause() string {
	if f.history == nil {
		return ""
	}
	return f.history.cause
}

// Since returns the start time of the current cause. It is zero if the Deduper never had a problem.
func (f Deduper) Since() time.Time {
	if f.history == nil {
		return time.Time{}
	}
	return f.history.since
}

// Unreported returns the unreported changes.
func (f Deduper) Unreported() Flapping {
	if f.history == nil {
		return Flapping{}
	}
	return f.history.unreported
}

// Change is the result of [Deduper.Update].
type Change struct {
	// News reports whether the cause must be reported.
	News bool
	// Flapped contains the preceding unreported changes. It is zero if News is false.
	Flapped Flapping
}

// Update sets the cause at the time now, which is empty if there is no problem. If always is set,
// every change is news.
func (f *Deduper) Update(cause string, now time.Time, always bool) (change Change) {
	if f.history == nil {
		if cause == "" {
			return change
		}
		f.history = new(history)
	}
	change = f.history.update(cause, now, always)
	if cause == "" && f.IsSettled(now) {
		f.history = nil
	}
	return change
}

func (c *history) update(cause string, now time.Time, always bool) Change {
	changed := cause != c.cause
	if changed {
		if c.cause == "" {
			c.wrong = now
		}
		c.cause, c.since = cause, now
	}
	steady := cause == c.last && c.unreported.Changes == 0
	passing := now.Sub(c.since) < lastingAfter && (cause == c.last || c.isKnown(cause, now))
	if steady || passing && !always {
		if changed {
			c.unreported.add(now)
		}
		return Change{}
	}
	flapped := c.unreported
	c.unreported = Flapping{}
	if cause != c.last && !changed { // the last unreported change is reported now
		flapped.Changes--
	}
	c.last = cause
	c.known = append(slices.DeleteFunc(c.known, func(k knownCause) bool { return k.cause == cause }), knownCause{cause, now})
	return Change{News: true, Flapped: flapped}
}

// isKnown reports whether a cause was recently reported, or the limit of known causes is reached.
func (c *history) isKnown(cause string, now time.Time) bool {
	c.forget(now)
	return len(c.known) >= knownCauses || slices.ContainsFunc(c.known, func(k knownCause) bool { return k.cause == cause })
}

func (c *history) forget(now time.Time) {
	c.known = slices.DeleteFunc(c.known, func(k knownCause) bool { return now.Sub(k.reported) >= knownFor || k.reported.After(now) })
}

// HasState reports whether the Deduper has any state.
func (f Deduper) HasState() bool { return f.history != nil }

// IsSettled reports whether the current cause was reported and earlier changes no longer matter. In
// that case, [Restored] can rebuild the Deduper.
func (f Deduper) IsSettled(now time.Time) bool {
	if f.history == nil {
		return true
	}
	f.history.forget(now)
	return f.history.cause == f.history.last && f.history.unreported.Changes == 0 && len(f.history.known) == 0
}

// Restored returns a Deduper with a reported cause that began at since.
func Restored(cause string, since time.Time) Deduper {
	return Deduper{&history{cause: cause, last: cause, since: since, wrong: since}}
}

// Fields returns the log fields for news, except the error: the start time of the cause or of the
// ended problem, and the unreported changes. wall converts times for display.
func (f Deduper) Fields(flapped Flapping, wall func(time.Time) time.Time) []zap.Field {
	var fields []zap.Field
	switch {
	case f.history == nil:
	case f.history.cause != "":
		fields = append(fields, zap.Time("since", wall(f.history.since)))
	case !f.history.wrong.IsZero():
		fields = append(fields, zap.Time("failed_since", wall(f.history.wrong)))
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
