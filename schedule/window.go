package schedule

import (
	"slices"
	"time"
)

const day = 24 * time.Hour

// maxOffset is more than the largest difference between local time and UTC. Clocks are set back by
// less than maxOffset.
const maxOffset = 26 * time.Hour

// Local times are represented by the time in UTC that has the same date and time of day.

// local returns the local time at an instant.
func (r *Rule) local(t time.Time) time.Time { return t.UTC().Add(r.offset(t)) }

func (r *Rule) offset(t time.Time) time.Duration {
	_, seconds := t.In(r.zone).Zone()
	return time.Duration(seconds) * time.Second
}

// period returns the bounds of the period around an instant in which the offset does not change. A
// zero bound means that the period is unbounded. Two adjacent periods can have the same offset.
func (r *Rule) period(t time.Time) (start, end time.Time) {
	start, end = t.In(r.zone).ZoneBounds()
	if !end.IsZero() && !end.After(t) { // a bug of Go 1.26 on December 31 of leap years
		end = t.Add(day)
	}
	return start, end
}

// reached returns the latest local time up to an instant. It differs from the local time only
// after a clock was set back.
func (r *Rule) reached(t time.Time) time.Time {
	latest, at := r.local(t), t
	for {
		change, _ := r.period(at)
		if change.IsZero() || t.Sub(change) > maxOffset {
			return latest
		}
		at = change.Add(-1)
		if before := r.local(at); before.After(latest) {
			latest = before
		}
	}
}

// begin returns the first instant at which the local time is at least start. If start is in a gap,
// it is the end of the gap.
func (r *Rule) begin(start time.Time) time.Time {
	for from := start.Add(-maxOffset); ; {
		_, change := r.period(from)
		at := start.Add(-r.offset(from))
		if at.Before(from) {
			at = from
		}
		if change.IsZero() || at.Before(change) {
			return at.UTC()
		}
		from = change
	}
}

// end returns the end of the window that starts at a local time: the last instant at which the
// local time reaches the end, plus the duration.
func (r *Rule) end(start time.Time) time.Time {
	local := start.Add(r.length)
	for to := local.Add(maxOffset); ; {
		change, _ := r.period(to.Add(-1))
		at := local.Add(-r.offset(to.Add(-1)))
		if change.IsZero() || at.After(change) {
			if at.After(to) {
				at = to
			}
			return at.Add(r.Duration).UTC()
		}
		to = change
	}
}

// Ended reports whether a single period has ended. It is false for other rules.
func (r *Rule) Ended(now time.Time) bool { return !r.start.IsZero() && !now.Before(r.end(r.start)) }

// lastStart returns the latest start, at or before a local time, whose window can contain that
// time. It returns false if there is none.
func (r *Rule) lastStart(local time.Time) (time.Time, bool) {
	if !r.start.IsZero() {
		return r.start, !r.start.After(local)
	}
	date := local.Truncate(day)
	for oldest := date.Add(-r.length - r.Duration - 2*day); !date.Before(oldest); date = date.Add(-day) {
		minute := int(min(local.Sub(date), day-1) / time.Minute)
		if found, ok := r.starts.lastUpTo(minute); ok && r.onDate(date) {
			return date.Add(time.Duration(found) * time.Minute), true
		}
	}
	return time.Time{}, false
}

// nextStart returns the first start after a local time and before limit, and false without such a
// start.
func (r *Rule) nextStart(local, limit time.Time) (time.Time, bool) {
	if !r.start.IsZero() {
		return r.start, r.start.After(local) && r.start.Before(limit)
	}
	from := local.Truncate(time.Minute).Add(time.Minute)
	for date := from.Truncate(day); date.Before(limit); date = date.Add(day) {
		minute := int(max(from.Sub(date), 0) / time.Minute)
		if found, ok := r.starts.firstFrom(minute); ok && r.onDate(date) {
			return date.Add(time.Duration(found) * time.Minute), true
		}
	}
	return time.Time{}, false
}

// onDate reports whether a window can start on a local date.
func (r *Rule) onDate(date time.Time) bool {
	return r.starts.onDate(date) && !slices.ContainsFunc(r.except, date.Equal)
}

// covers reports whether an instant is in a window that is extended by lead before its start. The
// last window that has started decides, because all windows of a rule have the same length. until
// is the end of that window.
func (r *Rule) covers(t time.Time, lead time.Duration) (until time.Time, active bool) {
	start, ok := r.lastStart(r.reached(t.Add(lead)))
	if !ok {
		return until, false
	}
	until = r.end(start)
	return until, t.Before(until) && (lead == 0 || r.begin(start).Before(until))
}

// next returns the first instant after t and before limit at which the result of covers changes.
// It is zero without such a change.
func (r *Rule) next(t time.Time, lead time.Duration, limit time.Time) time.Time {
	until, active := r.covers(t, lead)
	for active && until.Before(limit) {
		at := until
		if until, active = r.covers(at, lead); !active {
			return at
		}
	}
	if active {
		return time.Time{}
	}
	start, ok := r.nextStart(r.reached(t.Add(lead)), limit.Add(lead+maxOffset))
	for ; ok; start, ok = r.nextStart(start, limit.Add(lead+maxOffset)) {
		at := r.begin(start).Add(-lead)
		if !at.Before(limit) {
			break
		}
		if _, active = r.covers(at, lead); active { // a window in a gap is empty
			return at
		}
	}
	return time.Time{}
}
