package compose

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/hpad/hpad/targets"
)

// A replica that hpad makes is as new as the one that it is a copy of, whenever it was
// made: while hpad made it, Compose may have begun to renew the service, which it does
// with the containers that it saw when it began. So hpad remembers which replicas it
// made lately, and of what.

const (
	copyPrefix = "copies/"
	// copyAge is how long a replica is known as a copy: longer than Compose is at
	// work on what it saw before the replica was there.
	copyAge = 5 * time.Minute
	// renewalQuiet is how long Compose must have made no container of a service before
	// hpad replaces copies that were overtaken: until then it may do so itself.
	renewalQuiet = 10 * time.Second
)

type copied struct {
	// As is when the container was created, in seconds of the engine's clock, whose
	// configuration the replica has; 0 when that is the template's.
	As   int64     `json:"as"`
	Made time.Time `json:"made"`
	// Unchecked reports that no reading since has shown whether the service is still
	// there, Alone that nothing else of the project was before.
	Unchecked bool `json:"unchecked,omitzero"`
	Alone     bool `json:"alone,omitzero"`
	// Instead is the container that the replica is to take the place of, or has taken;
	// "" for none. Number is that container's.
	Instead string `json:"instead,omitempty"`
	Number  int    `json:"number,omitzero"`
}

// copies are those of all services. They are safe for concurrent use.
type copies struct {
	byContainer[copied]

	mu sync.Mutex
	// replacing are the containers that new ones are to take the place of, by the new
	// ones' names.
	replacing map[key]map[string]string
	// failed is why copies could not be replaced.
	failed failures
	// last is what was made last of a service that has copies which were overtaken.
	last map[key]lastMade
}

// lastMade is the container that Compose made last of a service.
type lastMade struct {
	id string
	// seen is when it was first seen.
	seen time.Time
}

func newCopies(store targets.Store) *copies {
	return &copies{byContainer: newByContainer[copied](store, copyPrefix), replacing: map[key]map[string]string{}, failed: failures{}, last: map[key]lastMade{}}
}

func (c *copies) note(ctx context.Context, k key, id string, one copied) {
	c.change(ctx, k, func(known map[string]copied) { known[id] = one })
}

func (c *copies) forget(ctx context.Context, k key, ids ...string) {
	c.change(ctx, k, func(known map[string]copied) {
		for _, id := range ids {
			delete(known, id)
		}
	})
}

// checked enters that the service was still there when replicas had started.
func (c *copies) checked(ctx context.Context, k key, ids ...string) {
	c.change(ctx, k, func(known map[string]copied) {
		for _, id := range ids {
			if one, ok := known[id]; ok {
				one.Unchecked = false
				known[id] = one
			}
		}
	})
}

// settle forgets replicas that are too old to be overtaken by anything, or gone;
// not those that were overtaken and are still there.
func (c *copies) settle(ctx context.Context, k key, members []*member, now time.Time) {
	overtaken := map[string]bool{}
	for _, m := range obsolete(members) {
		overtaken[m.ID] = true
	}
	c.change(ctx, k, func(known map[string]copied) {
		maps.DeleteFunc(known, func(id string, one copied) bool { return now.Sub(one.Made) > copyAge && !overtaken[id] })
	})
}

// replace sets which containers the next ones of these names are to take the place of;
// none, when that is over.
func (c *copies) replace(k key, instead map[string]string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.replacing[k] = instead; len(instead) == 0 {
		delete(c.replacing, k)
	}
}

// fail sets why copies could not be replaced; nil, that they could.
func (c *copies) fail(k key, err error, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		delete(c.failed, k)
		return
	}
	c.failed[k] = failure{err: err, at: now}
}

// failure returns why copies of a service could not be replaced; nil when they could, or
// nobody tried.
func (c *copies) failure(k key) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.failed[k].err
}

// due reports whether copies which were overtaken may be replaced: Compose has made
// nothing for a while, and the last time it did not fail, or that was a while ago.
func (c *copies) due(k key, last *member, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last[k].id != last.ID {
		c.last[k] = lastMade{id: last.ID, seen: now}
	}
	return now.Sub(c.last[k].seen) >= renewalQuiet && c.failed.over(k, now)
}

// fine forgets what was known of overtaken copies: there are none.
func (c *copies) fine(k key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.failed, k)
	delete(c.last, k)
}

// mark marks the copies in a list, and those that are to take the place of a container
// which is still there. One that a list does not have yet is in its place there, unless
// that one was to go before the list was begun.
func (c *copies) mark(l *listing, before map[string]bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for k, members := range l.services {
		known := c.of(k)
		if len(known) == 0 && len(c.replacing[k]) == 0 {
			continue
		}
		there := map[string]*member{}
		for _, m := range members {
			there[m.ID] = m
		}
		for id, one := range known {
			if old := there[one.Instead]; old != nil && there[id] == nil && !before[old.ID] {
				old.doomed = false
			}
		}
		counts := func(id string) bool { return there[id] != nil && there[id].counts() }
		for _, m := range members {
			one, ok := known[m.ID]
			m.copied, m.as = ok, one.As
			m.spare = ok && counts(one.Instead) || counts(c.replacing[k][m.name])
		}
	}
}

// surplus returns those of a service's copies whose place is taken: Compose has itself
// renewed the container that each was made instead of.
func surplus(members []*member, known map[string]copied) []*member {
	var found []*member
	for _, m := range members {
		one := known[m.ID]
		renewed := func(other *member) bool {
			return other.counts() && other.ID != one.Instead && other.number == one.Number && other.Labels[labelReplace] != ""
		}
		if one.Instead != "" && !m.doomed && slices.ContainsFunc(members, renewed) {
			found = append(found, m)
		}
	}
	return found
}

// obsolete returns the copies of a service that Compose has made newer containers than,
// in order.
func obsolete(members []*member) []*member {
	living := counted(members)
	current := newest(living)
	var found []*member
	for _, m := range living {
		if m.copied && m.configuration() != current {
			found = append(found, m)
		}
	}
	slices.SortFunc(found, func(a, b *member) int { return a.number - b.number })
	return found
}
