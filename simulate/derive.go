package simulate

import (
	"math"
	"time"

	"github.com/hpad/hpad/policy"
)

// readings contains the readings of one pass. Its memory is reused by the next pass.
type readings struct {
	values   []Reading
	groups   []policy.Groups
	requests []policy.Requests
}

func newReadings(n int) readings {
	return readings{values: make([]Reading, n), groups: make([]policy.Groups, n), requests: make([]policy.Requests, n)}
}

// copy sets the recorded readings. In a tick without readings, all metrics are missing.
func (r *readings) copy(recorded []Reading, metrics []int) {
	for i, m := range metrics {
		r.values[i] = Reading{Missing: true}
		if m < len(recorded) {
			r.values[i] = recorded[m]
		}
	}
}

// derive returns the tick of a fleet with another count than recorded, and sets the readings that the
// models predict for it.
func (r *row) derive(i int, now time.Time) Tick {
	view := r.recording.Ticks[i]
	reported := view.Ready > 0 || view.Outage || view.Observed <= 0 || r.recording.CountsUnknown
	ready, starting, draining := r.fleet.at(now)
	view.Replicas, view.Observed, view.Reached = r.fleet.replicas, r.fleet.replicas, nil
	if view.Outage {
		ready = 0
	}
	view.Outage = view.Outage || reported && ready == 0 && starting > 0
	switch {
	case view.Replicas == 0 && draining == 0:
		view.Ready, view.Outage = Unknown, false
	case reported:
		view.Ready = ready
	}
	r.readings.copy(view.Readings, r.recorded)
	for k, m := range r.recorded {
		in, load := &r.readings.values[k], r.loads[m][i]
		switch model := r.models[m].Model; {
		case in.Missing || model == Fixed && in.Groups == nil:
		case in.Groups != nil:
			r.deriveUsage(k, i, ready, starting, draining)
		case model == Queue:
			in.Milli = int64(math.Round(r.queues[m]))
		case model == Ratio && ready == 0:
			in.Missing = true // a ready instance would measure it
		case model == Ratio:
			in.Milli = int64(math.Round(load / float64(ready)))
		}
	}
	return view
}

// deriveUsage divides the recorded usage among the ready instances. Missing samples stay missing.
func (r *row) deriveUsage(k, i int, ready, starting, draining int32) {
	in := &r.readings.values[k]
	was := in.Groups
	if was.Ready == 0 || ready == 0 {
		*in = Reading{Missing: true, Partial: in.Partial}
		return
	}
	measured := was.Ready
	if in.Requests == nil {
		measured += was.Extraneous
	}
	missing := min(was.Missing, int(ready)-1)
	groups := policy.Groups{Ready: int(ready) - missing, Missing: missing, Unready: int(starting), Ignored: int(draining)}
	each := float64(in.Milli) / float64(measured)
	if r.models[r.recorded[k]].Model != Fixed {
		each *= float64(r.recording.Ticks[i].carrying(was)) / float64(ready)
	}
	in.Milli = int64(math.Round(each * float64(groups.Ready)))
	if in.Requests != nil {
		request := float64(in.Requests.Ready) / float64(was.Ready)
		r.readings.requests[k] = policy.Requests{
			Ready: int64(request * float64(groups.Ready)), Missing: int64(request * float64(missing)), Unready: int64(request * float64(starting)),
		}
		in.Requests = &r.readings.requests[k]
	}
	r.readings.groups[k] = groups
	in.Groups = &r.readings.groups[k]
}
