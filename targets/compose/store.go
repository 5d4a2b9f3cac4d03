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

// forgottenAfter is the time after which the unused data of a service is deleted.
const forgottenAfter = 24 * time.Hour

// uses are the times at which services were last read and existed. It is safe for
// concurrent use.
type uses struct {
	mu   sync.Mutex
	last map[key]time.Time
}

func (u *uses) use(k key, now time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.last == nil {
		u.last = map[key]time.Time{}
	}
	u.last[k] = now
}

// over returns the services that were last used more than forgottenAfter ago.
func (u *uses) over(now time.Time) []key {
	u.mu.Lock()
	defer u.mu.Unlock()
	var over []key
	for k, last := range u.last {
		if now.Sub(last) > forgottenAfter {
			over = append(over, k)
			delete(u.last, k)
		}
	}
	return over
}
