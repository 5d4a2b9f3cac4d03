package state

import (
	"bytes"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	bolt "go.etcd.io/bbolt"
	"go.uber.org/zap"

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

// loadPrefixed decodes all values in metaBucket whose keys start with prefix.
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

// loadMeta decodes a value in metaBucket if it exists.
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

// Removals lists the recent scale-downs of a fleet with a breaker. All times are monotonic times
// (see package clock).
type Removals struct {
	Rounds []Removal `json:"rounds,omitempty"`
	// Waived is the time until which an operator has disabled the breaker, or zero if the breaker
	// is enabled.
	Waived time.Time `json:"waived,omitzero"`
}

// Removal is the number of instances that one round removed.
type Removal struct {
	Time      time.Time `json:"time"`
	Instances int64     `json:"instances"`
}

// Empty reports whether r contains no data to store.
func (r Removals) Empty() bool { return len(r.Rounds) == 0 && r.Waived.IsZero() }

// Within returns the removals during the last window before now.
func (r Removals) Within(window time.Duration, now time.Time) Removals {
	var within Removals
	for _, removal := range r.Rounds {
		if removal.Instances > 0 && now.Sub(removal.Time) < window {
			within.Rounds = append(within.Rounds, removal)
		}
	}
	if now.Before(r.Waived) {
		within.Waived = r.Waived
		if latest := now.Add(window); latest.Before(r.Waived) { // the window or the clock changed
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

// Part names data that can be lost independently of the other parts.
type Part string

// The parts of the state. A loss of DirectoryPart means that the directory was removed while hpad
// was running; hpad recreated it and lost no data.
const (
	MemoryPart    Part = "memory"
	historyPart   Part = "history"
	DirectoryPart Part = "directory"
)

// Parts lists all parts.
var Parts = []Part{MemoryPart, historyPart, DirectoryPart}

// Loss describes a part of the state that was lost or recreated.
type Loss struct {
	// At is the time when hpad detected the loss.
	At      time.Time `json:"at"`
	Part    Part      `json:"part"`
	Message string    `json:"message"`
}

var lossesKey = []byte("losses")

// maxLosses is the maximum number of stored losses. Older losses are dropped.
const maxLosses = 10

// Losses implements [Store].
func (s *store) Losses() []Loss { return *s.losses.Load() }

func (s *store) loadLosses() error {
	losses := []Loss{}
	err := s.state.view(func(tx *bolt.Tx) error { return loadMeta(tx.Bucket(metaBucket), lossesKey, &losses) })
	if err != nil {
		return fmt.Errorf("read losses from %q: %w", s.state.path, err)
	}
	s.losses.Store(&losses)
	return nil
}

// lose records a loss. The caller must be the only writer.
func (s *store) lose(part Part, message string) error {
	loss := Loss{At: time.Now().UTC(), Part: part, Message: message}
	losses := append(slices.Clone(s.Losses()), loss)
	losses = losses[max(0, len(losses)-maxLosses):]
	s.losses.Store(&losses)
	s.options.Log.Error("state lost", zap.String("part", string(part)), zap.String("err", message))
	if err := s.state.update(putLosses(losses)); err != nil {
		return fmt.Errorf("record the loss of state in %q: %w", s.state.path, err)
	}
	return nil
}

func putLosses(losses []Loss) func(*bolt.Tx) error {
	return func(tx *bolt.Tx) error {
		sealed, err := sealJSON(string(lossesKey), losses)
		if err != nil {
			return err
		}
		return tx.Bucket(metaBucket).Put(lossesKey, sealed)
	}
}

// earlierState describes the evidence that a state.db existed earlier and is now missing. It
// returns "" if there is none.
func (s *store) earlierState() string {
	path := filepath.Join(s.dir, stateName)
	if exists(path) {
		return ""
	}
	aside := asideNames(path)
	switch {
	case len(aside) > 0:
		return fmt.Sprintf("%q is missing; the last damaged file was renamed to %q", path, aside[len(aside)-1])
	case exists(filepath.Join(s.dir, historyName)):
		return fmt.Sprintf("%q is missing", path)
	}
	return ""
}
