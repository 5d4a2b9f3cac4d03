package process

import (
	"context"
	"net"
	"strconv"
	"time"

	"github.com/hpad/hpad/targets/probe"
)

// firstProbe is the wait before the first probe. It doubles up to the interval.
const firstProbe = 25 * time.Millisecond

// watch probes a port until ctx ends and reports each result.
func (r Readiness) watch(ctx context.Context, port int, ready bool, report func(probe.State)) {
	verdict := probe.State{Ready: ready}
	pause := min(firstProbe, r.Interval)
	for {
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
		err := r.probe(ctx, port)
		if ctx.Err() != nil {
			return
		}
		r.Add(&verdict, err)
		report(verdict)
		pause = min(2*pause, r.Interval)
	}
}

func (r Readiness) probe(ctx context.Context, port int) error {
	ctx, cancel := context.WithTimeout(ctx, r.Timeout)
	defer cancel()
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	if r.TCP {
		return probe.TCP(ctx, address)
	}
	return probe.HTTP(ctx, "http://"+address+r.HTTP)
}
