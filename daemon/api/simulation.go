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
	// Assumptions are only used by a simulation in the daemon.
	Assumptions simulate.Assumptions `json:"assumptions,omitzero"`
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
	// maxSimulation is the time limit of a simulation in the daemon, without reading the data. maxReading
	// is the time limit of reading the data.
	maxSimulation = 2 * time.Second
	maxReading    = time.Minute
	// simulatedPoints is the maximum number of instants in the series of a result.
	simulatedPoints = 2000
)

// simulating contains an element while this process performs a simulation or reads its data.
var simulating = make(chan struct{}, 1)

// beginSimulation reserves the only simulation of this process. The caller must call leave after it.
func beginSimulation() (leave func(), err error) {
	select {
	case simulating <- struct{}{}:
		return func() { <-simulating }, nil
	default:
		return nil, &failure{ErrorTooMany, errors.New("another simulation is running; try again in a few seconds")}
	}
}

// recording returns the data of a simulation that the client performs.
func (h handlers) recording(r *http.Request, in SimulationRequest) (data SimulationData, err error) {
	if r.Header.Get(MemberHeader) != "" { // another member needs the points of this member, also if there are none
		if err := in.validate(); err != nil {
			return data, err
		}
		data.Recording, err = in.read(r.Context(), h.daemon, r.PathValue("name"))
		return data, err
	}
	leave, err := beginSimulation()
	if err != nil {
		return data, err
	}
	defer leave()
	return simulationData(r.Context(), h.daemon, r.PathValue("name"), in)
}

func (h handlers) simulation(r *http.Request, in SimulationRequest) (*simulate.Result, error) {
	return Simulate(r.Context(), h.daemon, r.PathValue("name"), in)
}

// Simulate performs a simulation, for at most 2 seconds. The series of the result have at most 2,000
// instants. Only one simulation is possible at a time. Its errors are for users.
func Simulate(ctx context.Context, d Daemon, name string, in SimulationRequest) (*simulate.Result, error) {
	leave, err := beginSimulation()
	if err != nil {
		return nil, err
	}
	defer leave()
	data, err := simulationData(ctx, d, name, in)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, maxSimulation)
	defer cancel()
	result, err := simulate.Run(ctx, &data.Recording, data.Policies, in.Assumptions)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return nil, &failure{ErrorBadData, fmt.Errorf("the simulation takes more than %s: select a shorter period or fewer variants, or run \"hpad simulate\", which has no limit", maxSimulation)}
	case err != nil:
		return nil, &failure{ErrorBadData, fmt.Errorf("simulate autoscaler %q: %w", name, err)}
	}
	result.Thin(simulatedPoints)
	return result, nil
}

// validate checks the request and sets the default period.
func (in *SimulationRequest) validate() error {
	if in.Until.IsZero() {
		in.Until = time.Now()
	}
	if in.From.IsZero() {
		in.From = in.Until.Add(-simulationSpan)
	}
	var err error
	switch span := in.Until.Sub(in.From); {
	case span <= 0:
		err = errors.New("from must be before until")
	case span > maxSimulationSpan:
		err = fmt.Errorf("the period has %s, and at most %s are possible", span.Round(time.Hour), maxSimulationSpan)
	case len(in.Variants) > maxVariants:
		err = fmt.Errorf("%d variants are given, and at most %d are possible", len(in.Variants), maxVariants)
	case in.Data != "" && in.Data != simulate.FromGraphs && in.Data != simulate.FromPrometheus:
		err = fmt.Errorf("data = %q: must be %q or %q", in.Data, simulate.FromGraphs, simulate.FromPrometheus)
	}
	if err != nil {
		return &failure{ErrorBadData, err}
	}
	return nil
}

// simulationData returns the policies and the recording that a request selects.
func simulationData(ctx context.Context, d Daemon, name string, in SimulationRequest) (data SimulationData, err error) {
	if err := in.validate(); err != nil {
		return data, err
	}
	if data.Policies, err = d.Policies(name, in.Variants); err != nil {
		if errors.Is(err, ErrUnknown) {
			return data, unknownName(name)
		}
		return data, &failure{ErrorBadData, err}
	}
	reading, cancel := context.WithTimeout(ctx, maxReading)
	defer cancel()
	if data.Recording, err = in.load(reading, d, name); err != nil {
		if reading.Err() != nil && ctx.Err() == nil {
			err = fmt.Errorf("reading the data takes more than %s: select a shorter period: %w", maxReading, err)
		}
		return data, &failure{ErrorBadData, err}
	}
	for _, note := range data.Recording.Notes {
		if note.Text == simulate.TargetChanged {
			return data, &failure{ErrorBadData, fmt.Errorf("%s at %s: select a period that begins after this time", note.Text, shownTime(note.Time))}
		}
	}
	return data, nil
}

// read returns the recording from the requested origin.
func (in *SimulationRequest) read(ctx context.Context, d Daemon, name string) (simulate.Recording, error) {
	if in.Data == simulate.FromPrometheus {
		return d.QueriedRecording(ctx, name, in.From, in.Until)
	}
	return d.Recording(ctx, name, in.From, in.Until)
}

// load returns the recording from the requested origin, or from the first one with data. A queried
// recording has the delays of the graphs.
func (in *SimulationRequest) load(ctx context.Context, d Daemon, name string) (simulate.Recording, error) {
	recording, err := in.first(ctx, d, name)
	if err != nil || recording.Origin != simulate.FromPrometheus {
		return recording, err
	}
	now := time.Now()
	if past, failed := d.Recording(ctx, name, now.Add(-GraphRetention), now); failed == nil { // otherwise, the delays are defaults
		recording.SetDelays(&past)
	}
	return recording, nil
}

func (in *SimulationRequest) first(ctx context.Context, d Daemon, name string) (simulate.Recording, error) {
	recording, err := in.read(ctx, d, name)
	if in.Data == "" && len(recording.Ticks) == 0 {
		queried, queryErr := d.QueriedRecording(ctx, name, in.From, in.Until)
		if queryErr == nil && len(queried.Ticks) > 0 {
			return queried, nil
		}
		if err == nil && queryErr != nil {
			err = fmt.Errorf("hpad has recorded no passes of autoscaler %q from %s to %s, and %w", name, shownTime(in.From), shownTime(in.Until), queryErr)
		}
	}
	if err == nil && len(recording.Ticks) == 0 {
		err = fmt.Errorf("autoscaler %q has no data from %s to %s", name, shownTime(in.From), shownTime(in.Until))
	}
	return recording, err
}

func shownTime(t time.Time) string { return t.UTC().Format(time.RFC3339) }
