// Package adaptertest contains an adapter for the targets of a targettest.Memory, and the settings with
// which the kinds of fleets with adapters run the contract suite.
package adaptertest

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"path"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/adapter"
	"github.com/hpad/hpad/targets/targettest"
)

// Interval is the interval of samples in the suite.
const Interval = 50 * time.Millisecond

// Complete adds the platforms to a kind for the contract suite. build returns a fleet whose adapter
// passes all requests to the HTTP server at an address.
func Complete(kind targettest.Kind, build func(t *testing.T, address string, env targets.Env) targets.Fleet) targettest.Kind {
	kind.Samples, kind.Removes = true, true
	kind.New = func(t *testing.T, counts ...int32) *targettest.Platform {
		m := targettest.NewMemory("memory")
		p := m.Platform(counts...)
		p.Leased = true
		server := &Server{Memory: m}
		web := httptest.NewServer(server)
		t.Cleanup(web.Close)
		store := &targettest.Store{}
		p.Open = func(t *testing.T) targets.Fleet {
			return build(t, web.URL, targets.Env{Store: store, Lease: p.Lease})
		}
		p.Sampling = func() bool { return time.Since(time.Unix(0, server.sampled.Load())) < 4*Interval }
		return p
	}
	return kind
}

// Server is an adapter over HTTP for the targets of a Memory.
type Server struct {
	Memory *targettest.Memory
	// Requests counts the requests.
	Requests atomic.Int64

	sampled atomic.Int64
}

// ServeHTTP responds to a request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.Requests.Add(1)
	var request adapter.Request
	if err := json.NewDecoder(r.Body).Decode(&request); err != nil || string(request.Call) != path.Base(r.URL.Path) || request.Protocol != adapter.Protocol {
		http.Error(w, "bad request", http.StatusBadRequest)
		return
	}
	response := s.respond(r.Context(), &request)
	if response == nil {
		return // the client has gone
	}
	response.ID = request.ID
	_ = json.NewEncoder(w).Encode(response)
}

func (s *Server) respond(ctx context.Context, request *adapter.Request) *adapter.Response {
	m := s.Memory
	var refs []targets.Ref
	for _, name := range request.Targets {
		refs = append(refs, m.Ref(name))
	}
	response := &adapter.Response{}
	var err error
	switch request.Call {
	case adapter.Describe:
		response.Protocol, response.Name, response.Calls = adapter.Protocol, "memory", []adapter.Call{adapter.Samples, adapter.Remove}
	case adapter.Snapshot:
		var readings map[targets.Ref]targets.Reading
		readings, err = m.Snapshot(ctx, refs)
		response.Targets = map[string]adapter.Target{}
		for ref, reading := range readings {
			response.Targets[ref.Name] = target(reading)
		}
	case adapter.Samples:
		s.sampled.Store(time.Now().UnixNano())
		var samples map[targets.Ref]targets.Samples
		samples, err = m.Samples(ctx, refs)
		response.Samples = map[string][]adapter.Sample{}
		for ref, found := range samples {
			for _, i := range found.Instances {
				usage := map[string]string{"cpu": strconv.FormatInt(i.Tasks[0].Usage[0].Milli, 10) + "m"}
				response.Samples[ref.Name] = append(response.Samples[ref.Name], adapter.Sample{ID: i.ID, At: i.At, Window: i.Window.Seconds(), Usage: usage})
			}
		}
	case adapter.Scale:
		err = m.SetReplicas(ctx, m.Ref(request.Target), *request.To, request.Version, request.Reason)
	case adapter.Remove:
		err = targettest.Removable{Memory: m}.Remove(ctx, m.Ref(request.Target), request.Instances, request.Version, request.Reason)
	}
	if ctx.Err() != nil {
		return nil
	}
	response.Error = asError(err)
	return response
}

// target converts a reading.
func target(r targets.Reading) adapter.Target {
	if r.Err != nil {
		return adapter.Target{Error: asError(r.Err)}
	}
	t := adapter.Target{Count: &r.SpecReplicas, Version: r.Version, Min: r.Min, Max: r.Max, Hold: r.Hold, Instances: []adapter.Instance{}}
	for n, i := range r.Instances {
		ready := i.Readiness == policy.ReadinessTrue
		phase := map[policy.Phase]adapter.Phase{policy.PhasePending: adapter.PhasePending, policy.PhaseRunning: adapter.PhaseRunning}[i.Phase]
		location := r.Locations.At(n)
		t.Instances = append(t.Instances, adapter.Instance{
			ID: i.ID, Node: location.Node, Phase: phase, Terminating: i.Deleting, Ready: &ready, UnreadyReason: location.UnreadyReason,
			StartedAt: i.StartedAt, ReadyChanged: i.ReadinessChanged, Protected: location.Protected,
		})
	}
	return t
}

// asError converts an error; nil remains nil.
func asError(err error) *adapter.Error {
	if err == nil {
		return nil
	}
	e := &adapter.Error{Code: adapter.Failed, Message: err.Error()}
	for class, code := range map[error]adapter.ErrorCode{
		targets.ErrTargetNotFound: adapter.NotFound, targets.ErrConflict: adapter.Conflict, targets.ErrHeld: adapter.Held,
		targets.ErrThrottled: adapter.Throttled, targets.ErrForbidden: adapter.Forbidden, targets.ErrTransient: adapter.Unavailable,
	} {
		if errors.Is(err, class) {
			e.Code = code
		}
	}
	if bounds, ok := errors.AsType[*targets.OutOfRangeError](err); ok {
		e.Code, e.Min, e.Max = adapter.OutOfRange, bounds.Min, bounds.Max
	}
	if partial, ok := errors.AsType[*targets.PartialError](err); ok {
		e.Code, e.Reached = adapter.Partial, &partial.Reached
	}
	if held, ok := errors.AsType[*targets.HeldError](err); ok {
		e.Reason, e.Message = held.Hold.Reason, held.Hold.Message
	}
	if throttled, ok := errors.AsType[*targets.ThrottledError](err); ok {
		e.RetryAfter = throttled.RetryAfter.Seconds()
	}
	return e
}
