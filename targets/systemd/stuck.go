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

// The minimum time before a notice about an instance that does not start or stop. A longer
// TimeoutStartSec= or TimeoutStopSec= takes precedence. stopsForLong applies to units that have
// no stop timeout.
const (
	takesLong    = 5 * time.Minute
	stopsForLong = time.Hour
)

// stuckSince returns the time when an instance began to start or to stop if this takes too long,
// otherwise the zero time.
func (u unit) stuckSince(d details, now time.Time) time.Time {
	since, most := d.started, max(takesLong, d.startWithin)
	switch {
	case u.ActiveState == "deactivating":
		since, most = clock.Later(d.started, d.stopStarted), max(takesLong, d.stopWithin)
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

func (s *state) stuckNotice(units map[int32]unit, known *detailCache, now time.Time) *policy.Notice {
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
		return &policy.Notice{Condition: UnitsStuck, Reason: StopHangs, Message: some(stopping) + " were stopped and still run, so that their indexes are in use; systemctl kill --signal=KILL ends them"}
	case len(starting) > 0:
		return &policy.Notice{Condition: UnitsStuck, Reason: StartHangs, Message: some(starting) + " were started and are not active yet (systemctl status): a service of Type=notify has to send READY=1, one of Type=oneshot has to end"}
	}
	return nil
}

func (s *state) reloadNotice(units map[int32]unit, known *detailCache) *policy.Notice {
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

// duration parses a number of microseconds. 0 means no limit.
func duration(value any) time.Duration {
	micro, ok := number(value)
	if !ok || micro > math.MaxInt64/1000 {
		return 0
	}
	return time.Duration(micro) * time.Microsecond
}
