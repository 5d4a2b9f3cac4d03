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
	// last is the cause that was reported last. known contains all causes reported within knownFor.
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
func (d Deduper) Cause() string {
	if d.history == nil {
		return ""
	}
	return d.history.cause
}

// Since returns the start time of the current cause. It is zero if the Deduper never had a problem.
func (d Deduper) Since() time.Time {
	if d.history == nil {
		return time.Time{}
	}
	return d.history.since
}

// Unreported returns the unreported changes.
func (d Deduper) Unreported() Flapping {
	if d.history == nil {
		return Flapping{}
	}
	return d.history.unreported
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
func (d *Deduper) Update(cause string, now time.Time, always bool) (change Change) {
	if d.history == nil {
		if cause == "" {
			return change
		}
		d.history = new(history)
	}
	change = d.history.update(cause, now, always)
	if cause == "" && d.IsSettled(now) {
		d.history = nil
	}
	return change
}

func (h *history) update(cause string, now time.Time, always bool) Change {
	changed := cause != h.cause
	if changed {
		if h.cause == "" {
			h.wrong = now
		}
		h.cause, h.since = cause, now
	}
	steady := cause == h.last && h.unreported.Changes == 0
	passing := now.Sub(h.since) < lastingAfter && (cause == h.last || h.isKnown(cause, now))
	if steady || passing && !always {
		if changed {
			h.unreported.add(now)
		}
		return Change{}
	}
	flapped := h.unreported
	h.unreported = Flapping{}
	if cause != h.last && !changed { // the last unreported change is reported now
		flapped.Changes--
	}
	h.last = cause
	h.known = append(slices.DeleteFunc(h.known, func(k knownCause) bool { return k.cause == cause }), knownCause{cause, now})
	return Change{News: true, Flapped: flapped}
}

// isKnown reports whether a cause was recently reported, or the limit of known causes is reached.
func (h *history) isKnown(cause string, now time.Time) bool {
	h.forget(now)
	return len(h.known) >= knownCauses || slices.ContainsFunc(h.known, func(k knownCause) bool { return k.cause == cause })
}

func (h *history) forget(now time.Time) {
	h.known = slices.DeleteFunc(h.known, func(k knownCause) bool { return now.Sub(k.reported) >= knownFor || k.reported.After(now) })
}

// HasState reports whether the Deduper has any state.
func (d Deduper) HasState() bool { return d.history != nil }

// IsReported reports whether the current cause was reported last, and no changes are unreported. More
// updates with the same cause then have no effect until IsSettled returns true.
func (d Deduper) IsReported() bool {
	return d.history == nil || d.history.cause == d.history.last && d.history.unreported.Changes == 0
}

// IsSettled reports whether the current cause was reported and earlier changes no longer matter. In
// that case, [Restored] can rebuild the Deduper.
func (d Deduper) IsSettled(now time.Time) bool {
	if d.history == nil {
		return true
	}
	d.history.forget(now)
	return d.history.cause == d.history.last && d.history.unreported.Changes == 0 && len(d.history.known) == 0
}

// Restored returns a Deduper with a reported cause that began at since.
func Restored(cause string, since time.Time) Deduper {
	return Deduper{&history{cause: cause, last: cause, since: since, wrong: since}}
}

// Fields returns the log fields for news, except the error: the start time of the cause or of the
// ended problem, and the unreported changes. wall converts times for display.
func (d Deduper) Fields(flapped Flapping, wall func(time.Time) time.Time) []zap.Field {
	var fields []zap.Field
	switch {
	case d.history == nil:
	case d.history.cause != "":
		fields = append(fields, zap.Time("since", wall(d.history.since)))
	case !d.history.wrong.IsZero():
		fields = append(fields, zap.Time("failed_since", wall(d.history.wrong)))
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
