package round

import (
	"context"
	"time"

	"github.com/hpad/hpad/daemon/adapters"
	"github.com/hpad/hpad/daemon/trouble"
	"github.com/hpad/hpad/targets"
)

// Discover returns the targets of a fleet that have labels, within the read timeout of a sync
// period. It does not wait for a call that ignores its context.
func (e *Env) Discover(ctx context.Context, h *adapters.Fleet, period time.Duration) ([]targets.Discovered, error) {
	timeout := readTimeout(period)
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, readLimit(timeout))
	defer cancel()
	type result struct {
		found []targets.Discovered
		err   error
	}
	results := make(chan result, 2) // of the call and of its timeout
	h.Discoveries.Run(ctx, 1, func(ctx context.Context, _ int) {
		h.Uses.Begin()
		defer h.Uses.End()
		started := time.Now()
		var r result
		r.err = trouble.Guard(func() (err error) {
			r.found, err = h.Discoverer.Discover(ctx)
			return withLimit(ctx, err)
		})
		e.Metrics.FleetCall(h.Name, callDiscover, time.Since(started), r.err)
		results <- r
	}, func(_ int, err error) { results <- result{err: err} })
	r := <-results
	return r.found, r.err
}
