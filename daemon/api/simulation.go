package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/simulate"
)

// SimulationRequest selects the data and the policies of a simulation.
type SimulationRequest struct {
	// From and Until limit the data; by default, the last 7 days. A period has at most 31 days.
	From  time.Time `json:"from,omitzero"`
	Until time.Time `json:"until,omitzero"`
	// Data is the origin of the data: "graphs", which are the passes that hpad has recorded, or
	// "prometheus", which queries the sources of the metrics again. By default, it is the first one
	// with data.
	Data simulate.Origin `json:"data,omitempty"`
	// Variants are the changes of the configuration to simulate, in addition to the active
	// configuration. At most 10 are possible.
	Variants []config.Variant `json:"variants,omitempty"`
}

// SimulationData is the input of a simulation.
type SimulationData struct {
	Recording simulate.Recording `json:"recording"`
	// Policies contains the active policy, and the policy of each variant.
	Policies []simulate.Policy `json:"policies"`
}

const (
	// simulationSpan is the period of a simulation if the request contains no start.
	simulationSpan = GraphRetention
	// maxSimulationSpan is the maximum period of a simulation, and maxVariants the maximum number of
	// variants.
	maxSimulationSpan = 31 * 24 * time.Hour
	maxVariants       = 10
)

// recording returns the data of a simulation that the client performs.
func (h handlers) recording(r *http.Request, in SimulationRequest) (SimulationData, error) {
	leave, err := h.beginSimulation(r)
	if err != nil {
		return SimulationData{}, err
	}
	defer leave()
	return h.simulationData(r, in)
}

// beginSimulation reserves the only simulation of the daemon. The caller must call leave after it. A
// request of another member for the points of this member does not count.
func (h handlers) beginSimulation(r *http.Request) (leave func(), err error) {
	if r.Header.Get(MemberHeader) != "" {
		return func() {}, nil
	}
	select {
	case h.simulating <- struct{}{}:
		return func() { <-h.simulating }, nil
	default:
		return nil, &failure{ErrorTooMany, errors.New("another simulation is running; try again in a few seconds")}
	}
}

// simulationData returns the policies and the recording that a request selects.
func (h handlers) simulationData(r *http.Request, in SimulationRequest) (data SimulationData, err error) {
	name, now := r.PathValue("name"), time.Now()
	if in.Until.IsZero() {
		in.Until = now
	}
	if in.From.IsZero() {
		in.From = in.Until.Add(-simulationSpan)
	}
	switch span := in.Until.Sub(in.From); {
	case span <= 0:
		return data, &failure{ErrorBadData, errors.New("from must be before until")}
	case span > maxSimulationSpan:
		return data, &failure{ErrorBadData, fmt.Errorf("the period has %s, and at most %s are possible", span.Round(time.Hour), maxSimulationSpan)}
	case len(in.Variants) > maxVariants:
		return data, &failure{ErrorBadData, fmt.Errorf("%d variants are given, and at most %d are possible", len(in.Variants), maxVariants)}
	}
	if r.Header.Get(MemberHeader) != "" { // another member needs the points of this member, also if there are none
		if in.Data == simulate.FromPrometheus {
			data.Recording, err = h.daemon.QueriedRecording(r.Context(), name, in.From, in.Until)
		} else {
			data.Recording, err = h.daemon.Recording(r.Context(), name, in.From, in.Until)
		}
		return data, err
	}
	if data.Policies, err = h.daemon.Policies(name, in.Variants); err != nil {
		if errors.Is(err, ErrUnknown) {
			return data, unknownName(name)
		}
		return data, &failure{ErrorBadData, err}
	}
	data.Recording, err = h.loadRecording(r.Context(), name, in)
	for _, note := range data.Recording.Notes {
		if note.Text == simulate.TargetChanged && err == nil {
			err = &failure{ErrorBadData, fmt.Errorf("%s at %s: select a period that begins after this time", note.Text, note.Time.UTC().Format(time.RFC3339))}
		}
	}
	return data, err
}

// loadRecording returns the recording from the requested origin, or from the first one with data.
func (h handlers) loadRecording(ctx context.Context, name string, in SimulationRequest) (recording simulate.Recording, err error) {
	switch in.Data {
	case simulate.FromGraphs, "":
		recording, err = h.daemon.Recording(ctx, name, in.From, in.Until)
	case simulate.FromPrometheus:
		recording, err = h.daemon.QueriedRecording(ctx, name, in.From, in.Until)
	default:
		return recording, &failure{ErrorBadData, fmt.Errorf("data = %q: must be %q or %q", in.Data, simulate.FromGraphs, simulate.FromPrometheus)}
	}
	if in.Data == "" && (len(recording.Ticks) == 0 || err != nil) {
		if queried, queryErr := h.daemon.QueriedRecording(ctx, name, in.From, in.Until); queryErr == nil && len(queried.Ticks) > 0 {
			return queried, nil
		} else if err == nil {
			err = queryErr
		}
	}
	if err == nil && len(recording.Ticks) == 0 {
		err = fmt.Errorf("autoscaler %q has no data from %s to %s", name, in.From.UTC().Format(time.RFC3339), in.Until.UTC().Format(time.RFC3339))
	}
	if err != nil {
		return recording, &failure{ErrorBadData, err}
	}
	return recording, nil
}
