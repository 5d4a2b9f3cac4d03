package notify

import (
	"context"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/hpad/hpad/guard"
)

// Set maps names to the receivers of one configuration.
type Set map[string]*Notifier

// Receivers holds the active receivers. The zero value has no receivers. It is safe for concurrent
// use.
type Receivers struct {
	active atomic.Pointer[Set]
	// queueing is read-locked while events are queued, so that a closed receiver gets no event.
	queueing sync.RWMutex
	closing  guard.Tasks
}

// Make returns the receivers for a configuration. It reuses active receivers if their configuration
// is unchanged. It neither starts nor closes receivers.
func (r *Receivers) Make(configs map[string]Config, log *zap.Logger) (Set, error) {
	before, made := r.active.Load(), Set{}
	for name, c := range configs {
		if before != nil && (*before)[name] != nil && reflect.DeepEqual((*before)[name].config, c) {
			made[name] = (*before)[name]
			continue
		}
		n, err := newNotifier(name, c, log)
		if err != nil {
			return nil, err
		}
		made[name] = n
	}
	return made, nil
}

// closeTimeout is the time limit for sending the waiting events of a closed receiver.
const closeTimeout = 5 * time.Second

// Swap activates receivers and closes the previous receivers in the background. A receiver
// continues the counts of a previous receiver with the same name.
func (r *Receivers) Swap(next Set) {
	var before Set
	if active := r.active.Load(); active != nil {
		before = *active
	}
	for name, n := range next {
		if was := before[name]; was != nil && was != n {
			n.tally = was.tally
		}
	}
	r.queueing.Lock()
	r.active.Store(&next)
	r.queueing.Unlock()
	for name, n := range before {
		if next[name] != n {
			r.closing.Go(func() {
				ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
				defer cancel()
				n.Close(ctx)
			})
		}
	}
	for _, n := range next {
		n.Start()
	}
}

// Close closes all receivers.
func (r *Receivers) Close() {
	r.Swap(Set{})
	r.closing.Wait()
}

// Any reports whether any receiver is active.
func (r *Receivers) Any() bool {
	set := r.active.Load()
	return set != nil && len(*set) > 0
}

// Notify queues an event for each receiver that wants it. It never blocks.
func (r *Receivers) Notify(event *Event) {
	r.queueing.RLock()
	defer r.queueing.RUnlock()
	if set := r.active.Load(); set != nil {
		for _, n := range *set {
			n.Notify(event)
		}
	}
}

// Counts returns the number of events by receiver.
func (r *Receivers) Counts() map[string]Counts {
	counts := map[string]Counts{}
	if set := r.active.Load(); set != nil {
		for name, n := range *set {
			counts[name] = n.counts()
		}
	}
	return counts
}
