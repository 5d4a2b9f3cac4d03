package gcetest

import (
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Fault is an injected fault. Its effects occur in the order of the fields.
type Fault struct {
	// Method is the affected method, such as "compute.instanceGroupManagers.resize"; "" means any.
	Method string
	// Times is the number of affected calls. 0 means that the fault affects all calls until it is
	// removed.
	Times int

	// Delay delays the response.
	Delay time.Duration
	// Hang blocks the call until the client disconnects or the fault is removed.
	Hang bool
	// Drop closes the connection before the call is executed.
	Drop bool
	// Status, Reason, Message and RetryAfter describe an error response, unless Status is 0. The
	// call has no effect.
	Status     int
	Reason     string
	Message    string
	RetryAfter time.Duration
	// Lose executes the call and closes the connection without a response.
	Lose bool
	// Truncate sends only half of the response.
	Truncate bool
}

type fault struct {
	Fault
	left  int
	ended chan struct{}
	end   func()
}

// Inject adds a fault. The returned function removes it and may be called more than once.
func (s *Server) Inject(f Fault) (remove func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	injected := &fault{Fault: f, left: f.Times, ended: make(chan struct{})}
	injected.end = sync.OnceFunc(func() { close(injected.ended) })
	s.faults = append(s.faults, injected)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.drop(injected)
	}
}

func (s *Server) drop(gone *fault) {
	s.faults = slices.DeleteFunc(s.faults, func(f *fault) bool { return f == gone })
	gone.end()
}

// meet returns the fault that affects a call, or nil.
func (s *Server) meet(method string) *fault {
	for _, f := range s.faults {
		if f.Method != "" && f.Method != method {
			continue
		}
		if f.Times > 0 {
			if f.left--; f.left == 0 {
				s.faults = slices.DeleteFunc(s.faults, func(other *fault) bool { return other == f })
			}
		}
		return f
	}
	return nil
}

// Spend limits calls with token buckets of 1,500 calls per minute, like those of Compute Engine.
// The buckets remain empty for a duration as if another client had used them up.
func (s *Server) Spend(d time.Duration) {
	const perMinute = 1500
	spent := func() *rate.Limiter {
		bucket := rate.NewLimiter(perMinute/60, perMinute)
		bucket.ReserveN(time.Now(), bucket.Burst())
		for range int(d.Seconds()) {
			bucket.ReserveN(time.Now(), perMinute/60)
		}
		return bucket
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads, s.writes = spent(), spent()
}

// Refused returns the number of calls rejected by throttling.
func (s *Server) Refused() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.refused
}

// Throttle makes the server reject every call with a throttling error until it is called with
// false.
func (s *Server) Throttle(on bool) { s.locked(func() { s.throttled = on }) }

// Forbid revokes a permission such as "compute.instanceGroupManagers.update", or grants it again.
func (s *Server) Forbid(permission string, on bool) {
	s.locked(func() { s.forbidden[permission] = on })
}

type apiError struct {
	status  int
	domain  string
	reason  string
	message string
	after   time.Duration
}

func (e *apiError) write(w http.ResponseWriter) {
	if e.after > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(e.after.Seconds())))
	}
	writeJSON(w, e.status, map[string]any{"error": map[string]any{
		"code": e.status, "message": e.message,
		"errors": []map[string]string{{"message": e.message, "domain": e.domain, "reason": e.reason}},
	}})
}
