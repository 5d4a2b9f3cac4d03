package state

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

func wantLosses(t *testing.T, s Store, want ...Part) {
	t.Helper()
	var got []Part
	for _, loss := range s.Losses() {
		got = append(got, loss.Part)
		if age := time.Since(loss.At); age < 0 || age > time.Minute || loss.Message == "" {
			t.Errorf("loss = %+v, want a loss at the current time with a message", loss)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("lost parts = %q, want %q", got, want)
	}
}

func TestBothAreDamaged(t *testing.T) {
	dir := t.TempDir()
	filled(t, dir)
	for _, name := range []string{stateName, historyName} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("damage"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Open(dir, Options{}); !errors.As(err, new(*damagedError)) {
		t.Errorf("Open = %v", err)
	}
	for range 2 {
		s := open(t, dir)
		wantLosses(t, s, MemoryPart, historyPart)
		closeStore(t, s)
	}
}

// TestNothingIsLostAtFirst checks that an interrupted first start is not reported as a loss.
func TestNothingIsLostAtFirst(t *testing.T) {
	dir := t.TempDir()
	closeStore(t, open(t, dir))
	if err := os.Remove(filepath.Join(dir, "history.db")); err != nil { // as if the start was interrupted before its creation
		t.Fatal(err)
	}
	s := open(t, dir)
	wantLosses(t, s)
	closeStore(t, s)
}
