package state

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	bolt "go.etcd.io/bbolt"
)

// Removals are the instances that the autoscalers of a fleet with a breaker took away,
// for as long as the breaker counts them, by the daemon's own clock.
type Removals struct {
	Rounds []Removal `json:"rounds,omitempty"`
	// Waived is until when nothing is held, because somebody let go on what was; zero
	// where nobody did.
	Waived time.Time `json:"waived,omitzero"`
}

// Removal is what one round took away.
type Removal struct {
	Time      time.Time `json:"time"`
	Instances int64     `json:"instances"`
}

// Empty reports whether there is nothing to know.
func (r Removals) Empty() bool { return len(r.Rounds) == 0 && r.Waived.IsZero() }

// Within returns the removals that count at now, those of less than a window ago.
func (r Removals) Within(window time.Duration, now time.Time) Removals {
	var within Removals
	for _, removal := range r.Rounds {
		if removal.Instances > 0 && now.Sub(removal.Time) < window {
			within.Rounds = append(within.Rounds, removal)
		}
	}
	if now.Before(r.Waived) {
		within.Waived = r.Waived
		if latest := now.Add(window); latest.Before(r.Waived) { // under a longer window, or another clock
			within.Waived = latest
		}
	}
	return within
}

// Sum returns how many instances were taken away.
func (r Removals) Sum() int64 {
	sum := int64(0)
	for _, removal := range r.Rounds {
		sum += removal.Instances
	}
	return sum
}

// withoutFuture returns the removals with what is later than now made now.
func (r Removals) withoutFuture(now time.Time) Removals {
	r.Rounds = slices.Clone(r.Rounds)
	for i := range r.Rounds {
		r.Rounds[i].Time = notAfter(r.Rounds[i].Time, now)
	}
	return r
}

// removalsPrefix begins the keys that metaBucket has removals under, by fleet.
const removalsPrefix = "removals/"

// loadRemovals reads what was taken away of all fleets.
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

// sealRemovals adds removals to what is to be written into metaBucket.
func sealRemovals(all map[string]Removals, meta map[string][]byte) error {
	for fleet, removals := range all {
		if err := checkKey(fleet); err != nil {
			return fmt.Errorf("write what was removed of fleet %q: %w", fleet, err)
		}
		key := removalsPrefix + fleet
		meta[key] = nil
		if removals.Empty() {
			continue
		}
		var err error
		if meta[key], err = sealJSON(key, removals); err != nil {
			return fmt.Errorf("write what was removed of fleet %q: %w", fleet, err)
		}
	}
	return nil
}
