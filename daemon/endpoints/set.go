// Package endpoints publishes the addresses of ready instances for proxies: it writes a file when
// they change, and runs a command.
package endpoints

import (
	"context"
	"reflect"
	"sync/atomic"

	"go.uber.org/zap"

	"github.com/hpad/hpad/guard"
	"github.com/hpad/hpad/targets"
)

// Target combines a target with its endpoints.
type Target struct {
	Autoscaler string
	Ref        targets.Ref
	// Config is valid and has a file.
	Config *Config
}

// read returns a reading of a target. Later calls never return an older reading. If fresh is set,
// the reading begins after the call. An error means that the target could not be read.
type read func(ctx context.Context, target *Target, fresh bool) (targets.Reading, error)

// Set publishes the endpoints of targets, each in its own goroutine. Withdraw and Problem are safe
// for concurrent use.
type Set struct {
	log        *zap.Logger
	read       read
	publishers atomic.Pointer[map[targets.Ref]*publisher]
	working    guard.Tasks
}

// NewSet returns a Set without targets.
func NewSet(log *zap.Logger, read read) *Set {
	s := &Set{log: log, read: read}
	s.publishers.Store(&map[targets.Ref]*publisher{})
	return s
}

// Apply replaces the set of published targets. It publishes their endpoints until ctx ends.
// Unchanged targets are not affected, and the files of removed targets remain.
func (s *Set) Apply(ctx context.Context, all []Target) {
	before, next := *s.publishers.Load(), map[targets.Ref]*publisher{}
	var added []*publisher
	for _, target := range all {
		if p := before[target.Ref]; p != nil && reflect.DeepEqual(p.Target, target) {
			next[target.Ref] = p
			continue
		}
		parsed, err := target.Config.parse()
		if err != nil { // Validate has parsed it already
			continue
		}
		p := &publisher{
			Target: target, read: s.read, template: parsed, withdrawals: make(chan chan struct{}), ended: make(chan struct{}),
			log: s.log.With(zap.String("autoscaler", target.Autoscaler), zap.Stringer("target", target.Ref)),
		}
		next[target.Ref] = p
		added = append(added, p)
	}
	var ending []*publisher
	for ref, p := range before {
		if next[ref] != p {
			p.cancel()
			ending = append(ending, p)
		}
	}
	s.publishers.Store(&next)
	for _, p := range added {
		ctx, cancel := context.WithCancel(ctx)
		p.cancel = cancel
		s.working.Go(func() {
			defer close(p.ended)
			for _, earlier := range ending { // one of them may write the same file
				<-earlier.ended
			}
			guard.Loop(ctx, func() { p.run(ctx) })
		})
	}
}

// Wait waits until all goroutines have ended.
func (s *Set) Wait() { s.working.Wait() }

// Withdraw publishes the endpoints of a target from a new reading. It returns when they are
// published, when attempts have failed for 10 seconds, or at the latest after the timeout of the
// target's command. While the attempts continue to fail, later calls return immediately.
func (s *Set) Withdraw(ctx context.Context, ref targets.Ref) {
	p := (*s.publishers.Load())[ref]
	if p == nil || p.isFailing() {
		return
	}
	p.withdrawing.Add(1)
	defer p.withdrawing.Add(-1)
	ctx, cancel := context.WithTimeout(ctx, p.Config.Timeout)
	defer cancel()
	done := make(chan struct{})
	select {
	case p.withdrawals <- done:
	case <-p.ended:
		return
	case <-ctx.Done():
		return
	}
	select {
	case <-done:
	case <-p.ended:
	case <-ctx.Done():
	}
}

// Withdrawing reports whether a call of Withdraw waits until the endpoints of a target are published.
func (s *Set) Withdrawing(ref targets.Ref) bool {
	p := (*s.publishers.Load())[ref]
	return p != nil && p.withdrawing.Load() > 0
}

// Problem returns the reason why the endpoints of a target are not published, or "" if there is
// none.
func (s *Set) Problem(ref targets.Ref) string {
	if p := (*s.publishers.Load())[ref]; p != nil {
		return p.problem.Text()
	}
	return ""
}
