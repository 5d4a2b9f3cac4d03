// Package adapters manages the fleets and sources of a configuration: it builds and starts them,
// replaces them at a reload, and closes unused adapters.
package adapters

import (
	"context"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/hpad/hpad/guard"
	"github.com/hpad/hpad/targets"
)

// Manager builds, starts, replaces and closes adapters.
type Manager struct {
	env Env
	// running ends when the daemon stops. acting ends when the daemon no longer waits for writes.
	running, acting context.Context
	working         guard.Tasks
}

// NewManager returns a Manager. running must end when the daemon stops, and acting when the daemon
// no longer waits for writes.
func NewManager(running, acting context.Context, env Env) *Manager {
	return &Manager{env: env, running: running, acting: acting}
}

// Swap starts the new adapters of a change and closes the replaced and removed adapters, in the
// background.
func (k *Manager) Swap(c *Change) {
	for _, r := range c.added {
		if r.older != nil {
			close(r.older.over)
		}
		k.working.Go(func() { k.replace(r) })
	}
	for _, a := range c.retired {
		close(a.over)
		k.working.Go(func() { k.retire(a) })
	}
}

// Wait waits for all adapters that are starting or closing.
func (k *Manager) Wait() { k.working.Wait() }

// replace starts a new adapter. A targets.Successor takes over immediately; any other adapter
// starts after the old one is closed.
func (k *Manager) replace(r replacement) {
	defer close(r.next.begun)
	if r.older != nil {
		<-r.older.begun
		successor, ok := r.next.built.(targets.Successor)
		if ok && successor.Succeed(r.older.built) {
			k.start(r.next)
			k.retire(r.older)
			return
		}
		k.retire(r.older)
	}
	k.start(r.next)
}

// StartRetry is the interval between attempts to start an adapter.
const StartRetry = 15 * time.Second

// start starts an adapter. It retries until it succeeds, the daemon stops, or a reload replaces
// the adapter.
func (k *Manager) start(a *Adapter) {
	for {
		err := start(k.running, a.built)
		news, _ := a.Problem.Set(err)
		if err == nil {
			return
		}
		if news {
			k.env.Log.Error("start failed, retrying", zap.String(a.what, a.Name), zap.NamedError("err", err), zap.Duration("every", StartRetry))
		}
		select {
		case <-time.After(StartRetry):
		case <-a.over:
			return
		case <-k.running.Done():
			return
		}
	}
}

func start(ctx context.Context, built any) error {
	starter, ok := built.(targets.Starter)
	if !ok {
		return nil
	}
	return guard.Call(func() error { return starter.Start(ctx) })
}

// retireWait is the maximum time that retire waits for calls into a replaced adapter.
const retireWait = time.Minute

// retire closes an adapter after its last use. A stopping daemon has already waited for writes, so
// retire does not wait for other calls.
func (k *Manager) retire(a *Adapter) {
	<-a.begun
	ctx, cancel := context.WithTimeout(k.acting, retireWait)
	defer cancel()
	a.Uses.wait(ctx)
	if err := Close(a.built); err != nil {
		k.env.Log.Error("close failed", zap.String(a.what, a.Name), zap.NamedError("err", err))
	}
}

// UseCount counts the users of an adapter, so that a replaced adapter is closed after its last use.
// The zero value is ready to use.
type UseCount struct{ count atomic.Int64 }

// Begin adds a user.
func (u *UseCount) Begin() { u.count.Add(1) }

// End removes a user.
func (u *UseCount) End() { u.count.Add(-1) }

// idleCheck is the time between two checks for users.
const idleCheck = 100 * time.Millisecond

// wait returns when the count is zero or ctx ends.
func (u *UseCount) wait(ctx context.Context) {
	ticker := time.NewTicker(idleCheck)
	defer ticker.Stop()
	for u.count.Load() > 0 {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}
