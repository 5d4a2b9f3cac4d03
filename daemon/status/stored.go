package status

import (
	"slices"
	"time"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/records"
	"github.com/hpad/hpad/daemon/state"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets/clock"
)

// Stored is the last status of a fleet's autoscalers in a cluster's store. A nil Stored contains
// nothing. It is safe for concurrent use.
type Stored struct {
	autoscalers map[string]state.Record
	pauses      records.Pauses
	scale       *clock.Scale
}

// NewStored decodes the state of a fleet. The map values has the same keys as [state.Records].
func NewStored(values map[string][]byte) (*Stored, error) {
	snapshot, err := state.SnapshotOf(values)
	if err != nil {
		return nil, err
	}
	s := &Stored{autoscalers: snapshot.Autoscalers, scale: snapshot.Clock.Scale()}
	s.pauses.Restore(snapshot.Pauses)
	for name, record := range s.autoscalers {
		record.Memory = policy.Memory{} // not shown
		s.autoscalers[name] = record
	}
	return s, nil
}

// Discovered returns the names of the autoscalers that labels define, in no particular order.
func (s *Stored) Discovered() (names []string) {
	if s == nil {
		return nil
	}
	for name, record := range s.autoscalers {
		if record.Labels != nil {
			names = append(names, name)
		}
	}
	return names
}

// Add adds the status as of Evaluation.Last to a view that contains only a configuration. For an
// autoscaler that labels define, it also adds the bounds. It does not add the values of metrics,
// because the values in the store can be older.
func (s *Stored) Add(view *api.Autoscaler, fleet string) {
	if s == nil {
		return
	}
	view.Pauses, _ = s.pauses.Of(view.Name, fleet, s.scale.Monotonic(time.Now()), s.scale)
	if record, ok := s.autoscalers[view.Name]; ok {
		view.Created, view.Status, view.Evaluation.Last = record.Created, record.Status, record.Through
		view.Status.Metrics, view.Restore = nil, record.Restore.Shown()
		if count := record.ExpectedReplicas; count != nil { // the status has the count before the pass
			view.Status.CurrentReplicas = *count
		}
		if write := record.Intention; write != nil { // the pass did not end
			view.Status.CurrentReplicas, view.Status.DesiredReplicas = write.From, write.To
		}
		if bounds := record.Bounds; view.Spec.MaxReplicas == 0 && bounds != nil {
			view.Spec.MinReplicas, view.Spec.MaxReplicas, view.Labels = &bounds.Min, bounds.Max, record.Labels
		}
	}
	*view = clock.AsWallTime(s.scale, *view)
}

// Pauses returns the active pauses with wall-clock times, widest scope first.
func (s *Stored) Pauses() []policy.Pause {
	if s == nil {
		return nil
	}
	return shownPauses(&s.pauses, s.scale, s.scale.Monotonic(time.Now()))
}

// shownPauses returns the active pauses with wall-clock times, widest scope first.
func shownPauses(pauses *records.Pauses, scale *clock.Scale, now time.Time) []policy.Pause {
	var all []policy.Pause
	for _, pause := range pauses.Active() {
		if !pause.Ended(now) {
			pause.Message = records.PauseText(&pause, scale)
			all = append(all, clock.AsWallTime(scale, pause))
		}
	}
	slices.SortFunc(all, records.ComparePauses)
	return all
}
