package nomad

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// gathering is a reading of the allocations of many groups, which goes through all that
// the scope has, in parts. One that was cut off goes on in the next reading.
type gathering struct {
	// began is when it began, contact the oldest that any of its parts may be.
	began   time.Time
	contact time.Duration
	// groups are those that it is for, as they were then, with what was found so far.
	groups map[groupKey]*knownGroup
	// parts are the prefixes of ids that are left.
	parts map[string]bool
}

// wholeList is how many allocations are read in one list; more are read in parts, by
// the first two digits of their ids.
const wholeList = 4000

// parts returns the prefixes by which a scope's allocations are read where it has about
// so many.
func parts(present, most int) []string {
	if present <= most {
		return []string{""}
	}
	all := make([]string, 256)
	for n := range all {
		all[n] = fmt.Sprintf("%02x", n)
	}
	return all
}

// newGathering begins to gather groups as they are now.
func newGathering(groups map[groupKey]*knownGroup, present int, now time.Time) *gathering {
	g := &gathering{began: now, groups: groups, parts: map[string]bool{}}
	for _, part := range parts(present, wholeList) {
		g.parts[part] = true
	}
	return g
}

// read reads what is left, a few parts at a time. What was read before an error is
// kept.
func (g *gathering) read(ctx context.Context, s *session, at scope) error {
	var mu sync.Mutex
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(s.config.fetching())
	left := make([]string, 0, len(g.parts))
	for part := range g.parts {
		left = append(left, part)
	}
	for _, part := range left {
		group.Go(func() error {
			var found []*allocStub
			headers, err := s.readAllocs(ctx, at, part, presentAllocs, func(alloc *allocStub) {
				if g.groups[alloc.key()] != nil {
					found = append(found, alloc)
				}
			})
			if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			for _, alloc := range found {
				g.groups[alloc.key()].add(alloc)
			}
			g.contact = max(g.contact, headers.contact)
			delete(g.parts, part)
			return nil
		})
	}
	return group.Wait()
}

// readAllocs reads the allocations of a filter whose ids begin with a prefix, which may
// be empty, with all that is needed of them.
func (s *session) readAllocs(ctx context.Context, at scope, prefix, filter string, take func(*allocStub)) (reply, error) {
	params := map[string]string{"resources": "true"}
	if prefix != "" {
		params["prefix"] = prefix
	}
	return each(ctx, s, at, "/v1/allocations", params, filter, func(alloc *allocStub) {
		if !alloc.terminal() || alloc.failed() {
			take(alloc)
		}
	})
}
