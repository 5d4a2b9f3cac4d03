package schedule

import (
	"slices"
	"time"
)

const day = 24 * time.Hour

// maxOffset is more than the largest difference between local time and UTC. Clocks are set back by
// less than maxOffset.
const maxOffset = 26 * time.Hour

// maxShift is the largest change of a clock that cron jobs take into account. With a larger change,
// such as a skipped day, cron uses the new time immediately.
const maxShift = 3 * time.Hour

// Local times are represented by the time in UTC that has the same date and time of day.

// window is a period of an active rule: from begin up to, but excluding, end.
type window struct{ begin, end time.Time }

// contains reports whether an instant is in the window.
func (w window) contains(t time.Time) bool { return !t.Before(w.begin) && t.Before(w.end) }

func (w window) empty() bool { return !w.begin.Before(w.end) }

func (r *Rule) offset(t time.Time) time.Duration {
	_, seconds := t.In(r.zone).Zone()
	return time.Duration(seconds) * time.Second
}

// period returns the bounds of the time around an instant with the same offset. A
// zero bound means that the period is unbounded. Two adjacent periods can have the same offset.
func (r *Rule) period(t time.Time) (start, end time.Time) {
	start, end = t.In(r.zone).ZoneBounds()
	if !end.IsZero() && !end.After(t) { // a bug of Go 1.26 on December 31 of leap years
		end = t.Add(day)
	}
	return start, end
}

// segment is a period with a constant offset, and the starts that belong to it.
type segment struct {
	// since and until are zero if the period is unbounded.
	since, until time.Time
	offset       time.Duration
	// from is the first local start of the segment. It is before the local time of since if the
	// segment also has the starts that a change of the clock skipped, and after it if the segment
	// repeats local times.
	from time.Time
}

// segmentAt returns the segment that contains an instant.
func (r *Rule) segmentAt(t time.Time) segment {
	since, until := r.period(t)
	s := segment{since: since, until: until, offset: r.offset(t)}
	if since.IsZero() {
		return s
	}
	s.from = s.localAt(since)
	if reached := r.reached(since); r.Cron == "" || !r.starts.wildcard && s.from.Sub(reached).Abs() <= maxShift {
		s.from = reached
	}
	return s
}

func (s *segment) localAt(t time.Time) time.Time { return t.UTC().Add(s.offset) }

// instant returns the instant in the segment at which a window with a local start begins.
func (s *segment) instant(local time.Time) time.Time {
	if at := local.Add(-s.offset); s.since.IsZero() || at.After(s.since) {
		return at
	}
	return s.since.UTC()
}

// reached returns the latest local time before the change of the offset at an instant.
func (r *Rule) reached(change time.Time) (latest time.Time) {
	for at := change; ; {
		before := at.Add(-1)
		if local := at.UTC().Add(r.offset(before)); local.After(latest) {
			latest = local
		}
		if at, _ = r.period(before); at.IsZero() || change.Sub(at) > maxOffset {
			return latest
		}
	}
}

// windowAt returns the window that starts at a local time in a segment. It is empty if a change of
// the clock skips it.
func (r *Rule) windowAt(s *segment, local time.Time) window {
	begin := s.instant(local)
	if r.Cron != "" {
		return window{begin, begin.Add(r.Duration)}
	}
	return window{begin, r.last(local.Add(r.length))}
}

// first returns the first instant when the local time is at least the given time. If the time is
// in a gap, it is the end of the gap.
func (r *Rule) first(local time.Time) time.Time {
	for from := local.Add(-maxOffset); ; {
		_, change := r.period(from)
		at := local.Add(-r.offset(from))
		if at.Before(from) {
			at = from
		}
		if change.IsZero() || at.Before(change) {
			return at.UTC()
		}
		from = change
	}
}

// last returns the last instant when the local time reaches the given time. If the time is in a
// gap, it is the end of the gap.
func (r *Rule) last(local time.Time) time.Time {
	for to := local.Add(maxOffset); ; {
		change, _ := r.period(to.Add(-1))
		at := local.Add(-r.offset(to.Add(-1)))
		if change.IsZero() || at.After(change) {
			if at.After(to) {
				at = to
			}
			return at.UTC()
		}
		to = change
	}
}

// longest returns at least the elapsed time of a window.
func (r *Rule) longest() time.Duration { return r.length + r.Duration + maxOffset }

// Ended reports whether a single period has ended. It is false for other rules.
func (r *Rule) Ended(now time.Time) bool {
	return r.Start != "" && !now.Before(r.single.end)
}

// start is a local start in a segment, with the window that begins there. The window is not empty.
type start struct {
	segment
	local time.Time
	window
}

// lastStart returns the last start at or before an instant. It returns false if no window of such a
// start can last until the instant.
func (r *Rule) lastStart(t time.Time) (start, bool) {
	if r.Start != "" {
		return start{window: r.single}, !r.single.begin.After(t)
	}
	for at := t; ; {
		s := start{segment: r.segmentAt(at)}
		for local, ok := r.lastUpTo(s.localAt(at), s.from); ok; local, ok = r.lastUpTo(local.Add(-time.Minute), s.from) {
			if s.local, s.window = local, r.windowAt(&s.segment, local); !s.empty() {
				return s, true
			}
		}
		if s.since.IsZero() || t.Sub(s.since) > r.longest() {
			return s, false
		}
		at = s.since.Add(-1)
	}
}

// lastUpTo returns the last local start from a local time up to another local time, and false if
// its window cannot last until then.
func (r *Rule) lastUpTo(local, from time.Time) (time.Time, bool) {
	date := local.Truncate(day)
	for oldest := local.Add(-r.longest() - day); !date.Before(oldest) && date.Add(day).After(from); date = date.Add(-day) {
		minute := int(min(local.Sub(date), day-1) / time.Minute)
		if found, ok := r.starts.lastUpTo(minute); ok && r.onDate(date) {
			at := date.Add(time.Duration(found) * time.Minute)
			return at, !at.Before(from)
		}
	}
	return time.Time{}, false
}

// nextStart returns the first start after an instant and before limit, and false without such a start.
func (r *Rule) nextStart(t, limit time.Time) (start, bool) {
	if r.Start != "" {
		return start{window: r.single}, r.single.begin.After(t) && r.single.begin.Before(limit)
	}
	for at := t; at.Before(limit); {
		s := start{segment: r.segmentAt(at)}
		end := limit
		if !s.until.IsZero() && s.until.Before(limit) {
			end = s.until
		}
		from := s.localAt(at).Truncate(time.Minute).Add(time.Minute)
		switch {
		case at.After(t) && at.Equal(s.since), from.Before(s.from):
			from = s.from
		case at.After(t):
			from = s.localAt(at)
		}
		for local, ok := r.firstFrom(from, s.localAt(end)); ok; local, ok = r.firstFrom(local.Add(time.Minute), s.localAt(end)) {
			if s.local, s.window = local, r.windowAt(&s.segment, local); !s.empty() {
				return s, true
			}
		}
		at = end
	}
	return start{}, false
}

// firstFrom returns the first local start from a local time and before limit.
func (r *Rule) firstFrom(from, limit time.Time) (time.Time, bool) {
	from = from.Add(time.Minute - 1).Truncate(time.Minute)
	for date := from.Truncate(day); date.Before(limit); date = date.Add(day) {
		minute := int(max(from.Sub(date), 0) / time.Minute)
		if found, ok := r.starts.firstFrom(minute); ok && r.onDate(date) {
			at := date.Add(time.Duration(found) * time.Minute)
			return at, at.Before(limit)
		}
	}
	return time.Time{}, false
}

// onDate reports whether a window can start on a local date.
func (r *Rule) onDate(date time.Time) bool {
	return r.starts.onDate(date) && !slices.ContainsFunc(r.except, date.Equal)
}

// covers reports whether an instant is in a window that is extended by lead before its start. The
// last window that has begun decides, because it ends last.
func (r *Rule) covers(t time.Time, lead time.Duration) bool {
	s, ok := r.lastStart(t.Add(lead))
	return ok && t.Before(s.end)
}

// window returns the first window that ends after an instant and begins before limit, and the number
// of steps that the search took. The window is extended by lead, and includes windows of the same date
// that follow without a gap. It is the empty window at limit without such a window.
func (r *Rule) window(t time.Time, lead time.Duration, limit time.Time) (w window, steps int) {
	s, ok := r.lastStart(t.Add(lead))
	if !ok || !t.Before(s.end) {
		if s, ok = r.nextStart(t.Add(lead), limit.Add(lead)); !ok {
			return window{limit, limit}, 1
		}
	}
	begin := s.begin.Add(-lead)
	steps = r.skipTo(&s, r.Duration+lead)
	return window{begin, s.end}, steps
}

// startsPerStep is the number of starts that skipTo skips in the time of a step.
const startsPerStep = 32

// skipTo replaces a start by the last start on the same date that follows it with distances of at most
// gap. It saves the look-up of each start between them. It returns the number of steps.
func (r *Rule) skipTo(s *start, gap time.Duration) (steps int) {
	if r.Cron == "" {
		return 1
	}
	date := s.local.Truncate(day)
	first, end := int(s.local.Sub(date)/time.Minute), day
	if !s.until.IsZero() {
		end = min(end, s.localAt(s.until).Sub(date)+time.Minute-1)
	}
	last, skipped := first, 0
	if r.widest <= gap {
		last, _ = r.starts.lastUpTo(int(end/time.Minute) - 1)
	} else {
		for next, ok := first, true; ok && time.Duration(next-last)*time.Minute <= gap && next < int(end/time.Minute); next, ok = r.starts.firstFrom(last + 1) {
			last, skipped = next, skipped+1
		}
	}
	if last > first {
		s.local = date.Add(time.Duration(last) * time.Minute)
		s.window = r.windowAt(&s.segment, s.local)
	}
	return 1 + skipped/startsPerStep
}
