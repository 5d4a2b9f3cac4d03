package page_test

import (
	"iter"
	"slices"
	"sync"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/api/apitest"
)

// locked is a world that changes while it is looked at.
type locked struct {
	*world
	mu sync.Mutex
}

func (l *locked) change(how func(*apitest.Daemon)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	how(l.Daemon)
}

func (l *locked) AutoscalersAfter(name string) iter.Seq[api.Autoscaler] {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Values(slices.Collect(l.world.AutoscalersAfter(name)))
}
