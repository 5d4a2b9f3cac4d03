package state

import (
	"bytes"
	"fmt"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/hpad/hpad/policy"
)

// pausePrefix is the prefix of pause keys in metaBucket.
const pausePrefix = "pause/"

func pauseKey(scope policy.Scope) string {
	switch {
	case scope.Breaker:
		return pausePrefix + "b/" + scope.Fleet
	case scope.Autoscaler != "":
		return pausePrefix + "a/" + scope.Autoscaler
	case scope.Fleet != "":
		return pausePrefix + "f/" + scope.Fleet
	}
	return pausePrefix
}

// loadPrefixed decodes the values of metaBucket with a key prefix.
func loadPrefixed[T any](meta *bolt.Bucket, prefix string, add func(name string, value T)) error {
	cursor := meta.Cursor()
	for key, sealed := cursor.Seek([]byte(prefix)); bytes.HasPrefix(key, []byte(prefix)); key, sealed = cursor.Next() {
		var value T
		if err := unsealJSON(string(key), sealed, &value); err != nil {
			return fmt.Errorf("%q: %w", key, err)
		}
		add(string(key[len(prefix):]), value)
	}
	return nil
}

// loadMeta decodes a value of metaBucket if it exists.
func loadMeta(meta *bolt.Bucket, key []byte, into any) error {
	sealed := meta.Get(key)
	if sealed == nil {
		return nil
	}
	if err := unsealJSON(string(key), sealed, into); err != nil {
		return fmt.Errorf("%q: %w", key, err)
	}
	return nil
}

func sealPauses(pauses map[policy.Scope]*policy.Pause, meta map[string][]byte) error {
	for scope, pause := range pauses {
		err := checkKey(scope.Autoscaler + scope.Fleet)
		if err != nil && scope != (policy.Scope{}) {
			return fmt.Errorf("write the pause of %s: %w", scope, err)
		}
		key := pauseKey(scope)
		meta[key] = nil
		if pause == nil {
			continue
		}
		if meta[key], err = sealJSON(key, pause); err != nil {
			return fmt.Errorf("write the pause of %s: %w", scope, err)
		}
	}
	return nil
}

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

// removalsPrefix is the prefix of removal keys in metaBucket.
const removalsPrefix = "removals/"

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
