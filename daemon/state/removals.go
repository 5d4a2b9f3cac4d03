package state

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/hpad/hpad/targets/clock"
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
	// By is who did, in a fleet that is divided: the first of the parts that it owned, which
	// nobody else owned then, or byOne. It is set when it is written first, or loaded.
	By string `json:"by,omitempty"`
}

// byOne is by whom the rounds are that a fleet had before it was divided.
const byOne = "-"

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

// joinRemovals returns what two shards count of a fleet, or one, each round of each owner
// once, by a clock that the second shard's times are moved to.
func joinRemovals(key string, first, second []byte, move func(time.Time) time.Time) ([]byte, error) {
	var all, removals Removals
	if err := unsealJSON(key, second, &removals); err != nil {
		return nil, err
	}
	if first != nil {
		if err := unsealJSON(key, first, &all); err != nil {
			return nil, err
		}
	}
	all.Waived = clock.Later(all.Waived, move(removals.Waived))
	find := func(rounds []Removal, round Removal) int {
		return slices.IndexFunc(rounds, func(r Removal) bool {
			return r.Time.Equal(round.Time) && cmp.Or(r.By, byOne) == cmp.Or(round.By, byOne)
		})
	}
	var rounds []Removal
	for _, removal := range removals.Rounds {
		removal.Time = move(removal.Time)
		if i := find(rounds, removal); i >= 0 { // times that were in the future are one
			rounds[i].Instances += removal.Instances
		} else {
			rounds = append(rounds, removal)
		}
	}
	for _, removal := range rounds {
		if i := find(all.Rounds, removal); i >= 0 {
			all.Rounds[i].Instances = max(all.Rounds[i].Instances, removal.Instances)
		} else {
			all.Rounds = append(all.Rounds, removal)
		}
	}
	slices.SortFunc(all.Rounds, func(a, b Removal) int { return cmp.Or(a.Time.Compare(b.Time), strings.Compare(a.By, b.By)) })
	return sealJSON(key, all)
}

// removalsBy returns records in which all rounds of removals are by somebody: those that
// are by nobody yet are by the owner.
func removalsBy(values map[string][]byte, owner string) (map[string][]byte, error) {
	values = maps.Clone(values)
	for key, sealed := range values {
		at, _ := slotOf(key)
		if sealed == nil || at.bucket != string(metaBucket) || !strings.HasPrefix(at.key, removalsPrefix) {
			continue
		}
		var removals Removals
		if err := unsealJSON(at.key, sealed, &removals); err != nil {
			return nil, fmt.Errorf("%q: %w", key, err)
		}
		for i := range removals.Rounds {
			removals.Rounds[i].By = cmp.Or(removals.Rounds[i].By, owner)
		}
		var err error
		if values[key], err = sealJSON(at.key, removals); err != nil {
			return nil, err
		}
	}
	return values, nil
}
