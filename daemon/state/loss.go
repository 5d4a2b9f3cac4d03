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

// The parts of the state. A loss of DirectoryPart means that the directory was removed while
// hpad ran, and was recreated without loss of data.
const (
	MemoryPart    Part = "memory"
	HistoryPart   Part = "history"
	DirectoryPart Part = "directory"
)

// Parts are all parts.
var Parts = []Part{MemoryPart, HistoryPart, DirectoryPart}

// Loss describes a part of the state that was lost or recreated.
type Loss struct {
	// At is when hpad noticed the loss.
	At      time.Time `json:"at"`
	Part    Part      `json:"part"`
	Message string    `json:"message"`
}

var lossesKey = []byte("losses")

// keptLosses is the number of losses that are stored, the newest ones.
const keptLosses = 10

// Losses implements [Store].
func (s *store) Losses() []Loss { return *s.losses.Load() }

// loadLosses reads the losses. A time in the future, as after a clock was set back, is replaced
// by now. Otherwise the loss would be shown for too long.
func (s *store) loadLosses() error {
	losses := []Loss{}
	err := s.state.view(func(tx *bolt.Tx) error { return loadMeta(tx.Bucket(metaBucket), lossesKey, &losses) })
	if err != nil {
		return fmt.Errorf("read losses from %q: %w", s.state.path, err)
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

// lose records a loss. The caller must be the only writer.
func (s *store) lose(part Part, message string) error {
	loss := Loss{At: time.Now().UTC(), Part: part, Message: message}
	losses := append(slices.Clone(s.Losses()), loss)
	losses = losses[max(0, len(losses)-keptLosses):]
	s.losses.Store(&losses)
	s.options.Log.Error("state lost", zap.String("part", string(part)), zap.String("err", message))
	if err := s.state.update(putLosses(losses)); err != nil {
		return fmt.Errorf("write losses to %q: %w", s.state.path, err)
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

// earlierState describes the trace of an earlier state.db that is missing; empty if there is no
// such trace.
func (s *store) earlierState() string {
	path := filepath.Join(s.dir, stateName)
	if exists(path) {
		return ""
	}
	aside := asideNames(path, "damaged")
	switch {
	case len(aside) > 0:
		return fmt.Sprintf("%q is missing; the last file set aside is %q", path, aside[len(aside)-1])
	case exists(filepath.Join(s.dir, historyName)):
		return fmt.Sprintf("%q is missing", path)
	}
	return ""
}
