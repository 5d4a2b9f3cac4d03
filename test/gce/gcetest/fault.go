package gcetest

import (
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Fault is an error of the server. Its steps happen in the order of the fields.
type Fault struct {
	// Method is the id of the method it meets, as
	// "compute.instanceGroupManagers.resize"; "" means any.
	Method string
	// Times is the number of affected calls; 0 means until it is removed.
	Times int

	// Delay holds the response.
	Delay time.Duration
	// Hang holds it until the client gives up or the fault is removed.
	Hang bool
	// Drop ends the connection without doing anything.
	Drop bool
	// Status, Reason, Message and RetryAfter are the response, if Status is not 0.
	Status     int
	Reason     string
	Message    string
	RetryAfter time.Duration
	// Lose performs the call, and closes the connection without a response.
	Lose bool
	// Truncate sends half of the response.
	Truncate bool
}

type fault struct {
	Fault
	left  int
	ended chan struct{}
	end   func()
}

// Inject adds a fault; the result takes it away and may be called more than once.
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

// meet returns the fault for a call, or nil.
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

// Limit makes the server refuse calls beyond token buckets of reads and of changes,
// filled per minute; 0 means no limit.
func (s *Server) Limit(readsPerMinute, writesPerMinute int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	bucket := func(perMinute int) *rate.Limiter {
		if perMinute == 0 {
			return nil
		}
		return rate.NewLimiter(rate.Limit(float64(perMinute)/60), perMinute)
	}
	s.reads, s.writes = bucket(readsPerMinute), bucket(writesPerMinute)
}

// Bucket is Limit with a token bucket of reads of another size.
func (s *Server) Bucket(readsPerSecond float64, burst int) {
	s.locked(func() { s.reads = rate.NewLimiter(rate.Limit(readsPerSecond), burst) })
}

// Spend lets no call through for some time: empty token buckets of 1,500 calls a minute, as in
// Compute Engine.
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

// Refused returns the number of throttled calls.
func (s *Server) Refused() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.refused
}

// Throttle rejects every call as throttled, until it is turned off.
func (s *Server) Throttle(on bool) { s.locked(func() { s.throttled = on }) }

// Forbid takes a permission away, as "compute.instanceGroupManagers.update", or
// gives it back.
func (s *Server) Forbid(permission string, on bool) {
	s.locked(func() { s.forbidden[permission] = on })
}

// apiError is an error response.
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
