package exec

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/hpad/hpad/guard"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/adapter"
)

// The limits of the pause before a start of a program that failed repeatedly. There is no pause
// after the first failure. firstPause follows the second failure, and each further failure doubles
// the pause.
const (
	firstPause   = time.Second
	longestPause = 30 * time.Second
)

// stream is the transport to a program that runs all the time. It sends one request at a time. It
// kills the program if a response is late, oversized or invalid, because the following lines could
// belong to any request. It is safe for concurrent use.
type stream struct {
	config  *Config
	environ []string
	log     *lineWriter
	// busy is full during an exchange.
	busy chan struct{}

	mu     sync.Mutex
	closed bool
	// program is the current program, or nil.
	program *program
	// failures is the number of failures since the last valid response. cause is the last failure,
	// and until the end of the pause after it.
	failures int
	cause    error
	until    time.Time
}

func newStream(c *Config, fleet string, log io.Writer) *stream {
	return &stream{config: c, environ: c.environ(fleet), log: &lineWriter{to: log}, busy: make(chan struct{}, 1)}
}

// Call sends a request when the previous exchange has ended. If ctx ends first, the exchange
// continues until its timeout, because a program cannot cancel a request.
func (s *stream) Call(ctx context.Context, request *adapter.Request) (*adapter.Response, error) {
	select {
	case s.busy <- struct{}{}:
	case <-ctx.Done():
		return nil, targets.WithClass(targets.ErrTransient, fmt.Errorf("wait for the previous request: %w", context.Cause(ctx)))
	}
	response, err := guard.Abandon(ctx, func() (*adapter.Response, error) {
		defer func() { <-s.busy }()
		return s.exchange(request)
	})
	if err != nil && !targets.HasClass(err) { // ctx ended
		err = adapter.Lost(request, err)
	}
	return response, err
}

// exchange sends a request to the running program, and returns the response.
func (s *stream) exchange(request *adapter.Request) (*adapter.Response, error) {
	p, err := s.running()
	if err != nil {
		return nil, targets.WithClass(targets.ErrTransient, err)
	}
	response, err := p.exchange(request, s.config.Timeout)
	if err != nil {
		err = p.end(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err != nil:
		s.failedLocked(err)
		return nil, adapter.Lost(request, err)
	case request.Call != adapter.Describe: // a program that fails at each real call must not restart without a pause
		s.failures, s.cause = 0, nil
	}
	return response, nil
}

// running returns the running program. It starts the program if necessary, unless it paused after
// failures.
func (s *stream) running() (*program, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errors.New("the fleet is closed")
	}
	if s.program != nil && s.program.ended() {
		s.failedLocked(s.program.end(nil))
	}
	if s.program != nil {
		return s.program, nil
	}
	if pause := time.Until(s.until); pause > 0 {
		return nil, fmt.Errorf("the program starts again in %v, after: %w", pause.Round(time.Second), s.cause)
	}
	p, err := start(s.config.Command, s.environ, s.log)
	if err != nil {
		s.failedLocked(err)
		return nil, err
	}
	s.program = p
	return p, nil
}

// failedLocked records a failure of the program, and begins a pause.
func (s *stream) failedLocked(err error) {
	s.program, s.cause = nil, err
	if s.failures++; s.failures > 1 {
		s.until = time.Now().Add(min(firstPause<<min(s.failures-2, 10), longestPause))
	}
	s.log.printf("hpad: %v", err)
}

// Close ends the program.
func (s *stream) Close() error {
	s.mu.Lock()
	p := s.program
	s.closed, s.program = true, nil
	s.mu.Unlock()
	if p != nil {
		p.stop()
	}
	return nil
}
