package compose

import (
	"context"
	"sync"
	"time"

	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/ledger"
)

// byContainer are values of all services, by the ids of their containers. It is safe
// for concurrent use.
type byContainer[V comparable] struct{ *ledger.Ledger[ledger.Map[V]] }

func newByContainer[V comparable](store targets.Store, prefix string) byContainer[V] {
	return byContainer[V]{ledger.New[ledger.Map[V]](store, prefix)}
}

// of returns those of a service, which are not to be modified.
func (b byContainer[V]) of(k key) map[string]V {
	all, _ := b.Of(k.String())
	return all
}

// services returns those that have any, in order.
func (b byContainer[V]) services() []key { return keysOf(b.Names()) }

// change changes those of a service, and stores them where they are others then. What
// cannot be stored is known all the same.
func (b byContainer[V]) change(ctx context.Context, k key, change func(all map[string]V)) {
	b.Change(k.String(), func(before ledger.Map[V]) ledger.Map[V] {
		return before.With(func(all ledger.Map[V]) { change(all) })
	})
	_ = b.Save(ctx, k.String())
}

func keysOf(names []string) []key {
	var keys []key
	for _, name := range names {
		if k, err := parseName(name); err == nil {
			keys = append(keys, k)
		}
	}
	return keys
}

const (
	// forgottenAfter is how long what is of no use any more is remembered.
	forgottenAfter = 24 * time.Hour
	sweepInterval  = time.Hour
)

// uses are when something was last of use, by service. It is safe for concurrent use.
type uses struct {
	mu    sync.Mutex
	last  map[key]time.Time
	swept time.Time
}

func newUses() *uses { return &uses{last: map[key]time.Time{}, swept: time.Now()} }

func (u *uses) use(k key, now time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.last[k] = now
}

// over returns which of some services have not been of use for so long that they are
// to be forgotten, once every sweepInterval. One that was never is as of now.
func (u *uses) over(all func() []key, now time.Time) []key {
	u.mu.Lock()
	defer u.mu.Unlock()
	if now.Sub(u.swept) < sweepInterval {
		return nil
	}
	u.swept = now
	var over []key
	for _, k := range all() {
		if last, used := u.last[k]; !used {
			u.last[k] = now
		} else if now.Sub(last) > forgottenAfter {
			over = append(over, k)
			delete(u.last, k)
		}
	}
	return over
}
