package targets

import (
	"io"
	"reflect"
	"sync"
	"time"
)

// Env is what a fleet is lent by the daemon. A field may have its zero value, but for
// the Store of kinds that cannot do without.
type Env struct {
	// Store is the fleet's own small store; nil keeps nothing across restarts.
	Store Store
	// Meter counts the fleet's calls to a platform that limits them.
	Meter Meter
	// Process is what all fleets of the process share.
	Process *Process
	// Output returns where the output of an instance goes that the fleet itself runs.
	Output func(service, instance string) io.Writer
	// Now is the daemon's clock, which nobody sets, also across restarts.
	Now func() time.Time
	// DryRun is set where the fleet is to change nothing of its own accord.
	DryRun bool
}

// Process holds what all fleets of one process share, as the limits of an account
// that several of them call. The zero value holds nothing yet. It is safe for
// concurrent use.
type Process struct {
	mu     sync.Mutex
	shared map[reflect.Type]any
}

// Shared returns the T that the fleets of a process share, made as its zero value
// for the first that asks. A nil process shares nothing.
func Shared[T any](p *Process) *T {
	if p == nil {
		return new(T)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	key := reflect.TypeFor[T]()
	if value, ok := p.shared[key].(*T); ok {
		return value
	}
	if p.shared == nil {
		p.shared = map[reflect.Type]any{}
	}
	value := new(T)
	p.shared[key] = value
	return value
}
