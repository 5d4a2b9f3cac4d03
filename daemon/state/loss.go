package state

import (
	"fmt"
	"path/filepath"
	"slices"
	"time"

	bolt "go.etcd.io/bbolt"
	"go.uber.org/zap"
)

// Part is a part of the state that can be lost.
type Part string

// The parts of the state. DirectoryPart is the place that it is kept in: when that was
// removed or replaced while hpad ran, nothing is lost.
const (
	MemoryPart    Part = "memory"
	HistoryPart   Part = "history"
	DirectoryPart Part = "directory"
)

// Parts are all of them.
var Parts = []Part{MemoryPart, HistoryPart, DirectoryPart}

// Loss is a part of the state that was lost, or had to be written anew.
type Loss struct {
	// At is when hpad noticed.
	At   time.Time `json:"at"`
	Part Part      `json:"part"`
	// Message is a sentence for a person, without a full stop.
	Message string `json:"message"`
}

// lossesKey is where metaBucket of state.db has the losses.
var lossesKey = []byte("losses")

// keptLosses bounds how many losses are kept: the newest ones.
const keptLosses = 10

// Losses is as [Store] has it.
func (s *store) Losses() []Loss { return *s.losses.Load() }

// loadLosses reads the losses. One from the future, as after a clock was set back, is
// taken for noticed now, or it would be shown for too long.
func (s *store) loadLosses() error {
	losses := []Loss{}
	err := s.state.view(func(tx *bolt.Tx) error {
		sealed := tx.Bucket(metaBucket).Get(lossesKey)
		if sealed == nil {
			return nil
		}
		return unsealJSON(string(lossesKey), sealed, &losses)
	})
	if err != nil {
		return fmt.Errorf("read in %q what was lost: %w", s.state.path, err)
	}
	s.losses.Store(&losses)
	now, ahead := time.Now().UTC(), false
	for i := range losses {
		if losses[i].At.After(now) {
			losses[i].At, ahead = now, true
		}
	}
	if !ahead {
		return nil
	}
	return s.state.update(putLosses(losses))
}

// lose records a loss. Like every write it is one of [store.write]'s, or of a store that
// is being opened.
func (s *store) lose(part Part, message string) error {
	loss := Loss{At: time.Now().UTC(), Part: part, Message: message}
	losses := append(slices.Clone(s.Losses()), loss)
	losses = losses[max(0, len(losses)-keptLosses):]
	s.losses.Store(&losses)
	s.options.Log.Error("state was lost or removed", zap.String("part", string(part)), zap.String("err", message))
	if err := s.state.update(putLosses(losses)); err != nil {
		return fmt.Errorf("write to %q what was lost: %w", s.state.path, err)
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

// earlierState returns what shows that there was an earlier state.db where there is none; empty
// where there is one, and in a new directory.
func (s *store) earlierState() string {
	path := filepath.Join(s.dir, stateName)
	if exists(path) {
		return ""
	}
	aside := asideNames(path, "damaged")
	switch {
	case len(aside) > 0:
		return fmt.Sprintf("%q was lost: what was set aside last is %q", path, aside[len(aside)-1])
	case exists(filepath.Join(s.dir, historyName)):
		return fmt.Sprintf("%q was lost: it is gone", path)
	}
	return ""
}
