package notify

import (
	"context"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
)

// Set is the receivers of one configuration, by name.
type Set map[string]*Notifier

// Receivers are those in force. The zero value has none. It is safe for concurrent use.
type Receivers struct {
	inForce atomic.Pointer[Set]
	// telling is held for reading while events are told, so that none is told to a
	// receiver that ends.
	telling sync.RWMutex
	closing sync.WaitGroup
}

// Make returns the receivers of a configuration; those stay that are the same. Nothing is
// started or ended.
func (r *Receivers) Make(configs map[string]Config, log *zap.Logger) (Set, error) {
	before, made := r.inForce.Load(), Set{}
	for name, c := range configs {
		if before != nil && (*before)[name] != nil && reflect.DeepEqual((*before)[name].config, c) {
			made[name] = (*before)[name]
			continue
		}
		n, err := New(name, c, log)
		if err != nil {
			return nil, err
		}
		made[name] = n
	}
	return made, nil
}

// flushed is for how long a receiver that ends may still take what waits.
const flushed = 5 * time.Second

// Swap puts receivers in force, and ends those that are not among them in the background:
// one of the same name takes over what waits, and counts on.
func (r *Receivers) Swap(next Set) {
	var before Set
	if inForce := r.inForce.Load(); inForce != nil {
		before = *inForce
	}
	for name, n := range next {
		if was := before[name]; was != nil && was != n {
			n.before, n.tally = was, was.tally
		}
	}
	r.telling.Lock()
	r.inForce.Store(&next)
	r.telling.Unlock()
	for name, n := range before {
		if next[name] == nil {
			r.closing.Go(func() {
				ctx, cancel := context.WithTimeout(context.Background(), flushed)
				defer cancel()
				n.Close(ctx)
			})
		}
	}
	for _, n := range next {
		n.Start()
	}
}

// Close ends all receivers.
func (r *Receivers) Close() {
	r.Swap(Set{})
	r.closing.Wait()
}

// Any reports whether there is anybody to tell.
func (r *Receivers) Any() bool {
	set := r.inForce.Load()
	return set != nil && len(*set) > 0
}

// Tell tells each receiver that wants it of an event, and waits for none.
func (r *Receivers) Tell(event *Event) {
	r.telling.RLock()
	defer r.telling.RUnlock()
	if set := r.inForce.Load(); set != nil {
		for _, n := range *set {
			n.Tell(event)
		}
	}
}

// Counts returns what became of the events of each receiver.
func (r *Receivers) Counts() map[string]Counts {
	counts := map[string]Counts{}
	if set := r.inForce.Load(); set != nil {
		for name, n := range *set {
			counts[name] = n.Counts()
		}
	}
	return counts
}
