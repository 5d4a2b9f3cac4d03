package daemon

import (
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"go.uber.org/zap"

	"github.com/hpad/hpad/daemon/state"
	"github.com/hpad/hpad/policy"
)

// causeOf identifies what errors say, so that the same trouble is known again
// while its numbers, times and ids change: words that hold a digit do not count.
// It is empty where nothing is said.
func causeOf(texts ...string) string {
	if len(texts) == 0 {
		return ""
	}
	hash := fnv.New64a()
	said := false
	for _, text := range texts {
		for word := range strings.FieldsSeq(text) {
			said = true
			if strings.ContainsFunc(word, unicode.IsDigit) {
				word = "#"
			}
			_, _ = hash.Write([]byte(word + " ")) // a hash takes everything
		}
		_, _ = hash.Write([]byte{'\n'})
	}
	if !said {
		return ""
	}
	return strconv.FormatUint(hash.Sum64(), 36)
}

// failureOf identifies why a pass failed; empty where it did not.
func failureOf(decision *policy.Decision, outcome policy.Outcome, failed string) string {
	if failed == "" {
		return ""
	}
	if decision.Case == policy.CaseUnreadable {
		return causeOf(decision.Error)
	}
	said := []string{outcome.Error}
	for i := range decision.Metrics {
		if metric := &decision.Metrics[i]; metric.Error != "" {
			said = append(said, string(metric.Type), metric.Name, metric.Task, metric.Object, metric.Error)
		}
	}
	if cause := causeOf(said...); cause != "" {
		return cause
	}
	return causeOf(failed)
}

// hindranceOf identifies all that is wrong with an autoscaler: why its pass failed,
// what holds its target, and what else the platform says. It is empty where
// nothing is.
func hindranceOf(decision *policy.Decision, outcome policy.Outcome, failure string) string {
	var said []string
	for _, hold := range []*policy.Hold{decision.Hold, outcome.Hold} {
		if hold != nil {
			said = append(said, hold.Reason, hold.Message)
		}
	}
	for i := range decision.Notices {
		notice := &decision.Notices[i]
		said = append(said, string(notice.Condition), notice.Reason, notice.Message)
	}
	if cause := causeOf(said...); cause != "" {
		return cause + failure
	}
	return failure
}

// A cause that was told counts as known for knownFor: when it comes back within
// that time it is counted, and told only once it has lasted for lastingAfter. Of
// more than knownCauses different ones within that time the rest is counted too.
const (
	knownFor     = 10 * time.Minute
	lastingAfter = 2 * time.Minute
	knownCauses  = 8
)

// follower follows the cause of what is wrong with something and finds what is
// news of it. A cause is news when it is another one than was told last; causes
// that take turns are counted instead. The zero value is ready to use: nothing is
// wrong, and that is told.
type follower struct {
	// cause is the present one, empty while nothing is wrong, and since when it
	// began.
	cause string
	since time.Time
	// wrong is since when something is wrong, whatever its cause; it stays when that
	// is over.
	wrong time.Time
	// last is the cause that was told last, known are those told within knownFor.
	last  string
	known []knownCause
	// untold counts the changes that were not told.
	untold flapping
}

type knownCause struct {
	cause string
	told  time.Time
}

// flapping counts changes of a cause, from the time of the first; 0 means none.
type flapping struct {
	changes int
	from    time.Time
}

// follow takes the cause at now, and says whether it is news; any change is where
// it is told in any case. Flapped are the changes before this one that were not.
func (f *follower) follow(cause string, now time.Time, told bool) (news bool, flapped flapping) {
	changed := cause != f.cause
	if changed {
		if f.cause == "" {
			f.wrong = now
		}
		f.cause, f.since = cause, now
	}
	steady := cause == f.last && f.untold.changes == 0
	passing := now.Sub(f.since) < lastingAfter && (cause == f.last || f.isKnown(cause, now))
	if steady || passing && !told {
		if changed {
			f.untold.add(now)
		}
		return false, flapping{}
	}
	flapped, f.untold = f.untold, flapping{}
	if cause != f.last && !changed { // the last of them is what is told now
		flapped.changes--
	}
	f.last = cause
	f.known = append(slices.DeleteFunc(f.known, func(k knownCause) bool { return k.cause == cause }), knownCause{cause, now})
	return true, flapped
}

// isKnown reports whether a cause was told lately, or too many others were.
func (f *follower) isKnown(cause string, now time.Time) bool {
	f.known = slices.DeleteFunc(f.known, func(k knownCause) bool { return now.Sub(k.told) >= knownFor || k.told.After(now) })
	return len(f.known) >= knownCauses || slices.ContainsFunc(f.known, func(k knownCause) bool { return k.cause == cause })
}

// record is what the store keeps; nil while nothing is wrong.
func (f *follower) record() *state.Hindrance {
	if f.cause == "" {
		return nil
	}
	return &state.Hindrance{Cause: f.cause, Since: f.since}
}

// restoreFollower answers the follower of what the store kept, which was told.
func restoreFollower(kept *state.Hindrance) follower {
	if kept == nil {
		return follower{}
	}
	return follower{cause: kept.Cause, last: kept.Cause, since: kept.Since, wrong: kept.Since}
}

// fields are what a line of the log says of news besides the error: since when
// that is so where it is not new, since when something was wrong where that is
// over, and the changes that were not told. Wall converts times for people.
func (f *follower) fields(flapped flapping, wall func(time.Time) time.Time) []zap.Field {
	var fields []zap.Field
	switch {
	case f.cause != "":
		fields = append(fields, zap.Time("since", wall(f.since)))
	case !f.wrong.IsZero():
		fields = append(fields, zap.Time("failed_since", wall(f.wrong)))
	}
	if flapped.changes > 0 {
		fields = append(fields, zap.Int("changes", flapped.changes), zap.Time("changes_since", wall(flapped.from)))
	}
	return fields
}

func (n *flapping) add(now time.Time) {
	if n.changes == 0 {
		n.from = now
	}
	n.changes++
}
