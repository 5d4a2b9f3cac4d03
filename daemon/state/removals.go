package state

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	bolt "go.etcd.io/bbolt"
)

// Removals are the recent scale-downs of a fleet with a breaker, by the daemon's own clock.
type Removals struct {
	Rounds []Removal `json:"rounds,omitempty"`
	// Waived is the end of the time in which an operator has disabled the breaker; zero if it
	// is enabled.
	Waived time.Time `json:"waived,omitzero"`
}

// Removal is the number of instances that one round removed.
type Removal struct {
	Time      time.Time `json:"time"`
	Instances int64     `json:"instances"`
}

// Empty reports whether there is nothing to store.
func (r Removals) Empty() bool { return len(r.Rounds) == 0 && r.Waived.IsZero() }

// Within returns the removals of the last window before now.
func (r Removals) Within(window time.Duration, now time.Time) Removals {
	var within Removals
	for _, removal := range r.Rounds {
		if removal.Instances > 0 && now.Sub(removal.Time) < window {
			within.Rounds = append(within.Rounds, removal)
		}
	}
	if now.Before(r.Waived) {
		within.Waived = r.Waived
		if latest := now.Add(window); latest.Before(r.Waived) { // the window or the clock has changed
			within.Waived = latest
		}
	}
	return within
}

// Sum returns the number of removed instances.
func (r Removals) Sum() int64 {
	sum := int64(0)
	for _, removal := range r.Rounds {
		sum += removal.Instances
	}
	return sum
}

// withoutFuture returns the removals with later times replaced by now.
func (r Removals) withoutFuture(now time.Time) Removals {
	r.Rounds = slices.Clone(r.Rounds)
	for i := range r.Rounds {
		r.Rounds[i].Time = notAfter(r.Rounds[i].Time, now)
	}
	return r
}

// removalsPrefix is the prefix of removal keys in metaBucket.
const removalsPrefix = "removals/"

func loadRemovals(meta *bolt.Bucket) (map[string]Removals, error) {
	all := map[string]Removals{}
	cursor, prefix := meta.Cursor(), []byte(removalsPrefix)
	for key, sealed := cursor.Seek(prefix); bytes.HasPrefix(key, prefix); key, sealed = cursor.Next() {
		var removals Removals
		if err := unsealJSON(string(key), sealed, &removals); err != nil {
			return nil, fmt.Errorf("%q: %w", key, err)
		}
		all[string(key[len(prefix):])] = removals
	}
	return all, nil
}

func sealRemovals(all map[string]Removals, meta map[string][]byte) error {
	for fleet, removals := range all {
		if err := checkKey(fleet); err != nil {
			return fmt.Errorf("write the removals of fleet %q: %w", fleet, err)
		}
		key := removalsPrefix + fleet
		meta[key] = nil
		if removals.Empty() {
			continue
		}
		var err error
		if meta[key], err = sealJSON(key, removals); err != nil {
			return fmt.Errorf("write the removals of fleet %q: %w", fleet, err)
		}
	}
	return nil
}
