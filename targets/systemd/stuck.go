package systemd

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets/clock"
)

// How long an instance may take to start or to stop until there is a notice, where its
// own TimeoutStartSec= and TimeoutStopSec= do not give it more, and how long to stop
// where it has any time.
const (
	takesLong    = 5 * time.Minute
	stopsForLong = time.Hour
)

// stuckSince returns when an instance began to start or to stop that takes longer for it
// than it should; the zero time for any other.
func (u unit) stuckSince(d details, now time.Time) time.Time {
	since, most := d.started, max(takesLong, d.startWithin)
	switch {
	case u.ActiveState == "deactivating":
		since, most = clock.Later(d.started, d.left), max(takesLong, d.stopWithin)
		if d.stopWithin == 0 {
			most = stopsForLong
		}
	case u.ActiveState != "activating" || u.restarting():
		return time.Time{}
	}
	if since.IsZero() || now.Sub(since) <= most {
		return time.Time{}
	}
	return since
}

func (s *state) stuck(units map[int32]unit, known *detailCache, now time.Time) *policy.Notice {
	var starting, stopping []string
	for _, index := range slices.Sorted(maps.Keys(units)) {
		u := units[index]
		d, _ := known.of(u.Name)
		since := u.stuckSince(d, now)
		name := fmt.Sprintf("%s (since %s)", u.Name, since.Format(time.RFC3339))
		switch {
		case since.IsZero():
		case u.state == pending:
			starting = append(starting, name)
		default:
			stopping = append(stopping, name)
		}
	}
	switch {
	case len(stopping) > 0:
		return &policy.Notice{Condition: UnitsStuck, Reason: StopHangs, Message: some(stopping) + " should stop and still run, so that their indexes are not free; systemctl kill --signal=KILL ends them"}
	case len(starting) > 0:
		return &policy.Notice{Condition: UnitsStuck, Reason: StartHangs, Message: some(starting) + " are started and not active yet: services of Type=notify are once they say READY=1, those of Type=oneshot once they have ended (systemctl status)"}
	}
	return nil
}

func (s *state) stale(units map[int32]unit, known *detailCache) *policy.Notice {
	var names []string
	for _, index := range slices.Sorted(maps.Keys(units)) {
		if d, _ := known.of(units[index].Name); d.stale {
			names = append(names, units[index].Name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	return &policy.Notice{Condition: ReloadNeeded, Reason: UnitFileChanged, Message: "unit files of " + some(names) + " changed on disk, so that instances of old and new files may run side by side; systemctl daemon-reload has the manager read them"}
}

// span reads microseconds that something may take; 0 stands for any time.
func span(value any) time.Duration {
	micro, ok := set(value)
	if !ok || micro > math.MaxInt64/1000 {
		return 0
	}
	return time.Duration(micro) * time.Microsecond
}
