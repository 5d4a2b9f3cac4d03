package replicas

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/targettest"
)

var errFull = errors.New("no space left on device")

func set(s *Store[map[string]int], name, key string, value int) {
	s.Change(name, func(before map[string]int) map[string]int {
		next := map[string]int{key: value}
		maps.Copy(next, before)
		next[key] = value
		return next
	})
}

func stored(t *testing.T, store targets.Store, key string) string {
	t.Helper()
	text, err := store.Load(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestSave checks that Save writes a changed value once, retries a failed write, and deletes an
// empty value.
func TestSave(t *testing.T) {
	store := &targettest.Store{}
	s := New[map[string]int](store, "counts/")
	if _, known := s.Get("a"); known || s.Save(t.Context(), "a") != nil {
		t.Error("an empty Store has a value")
	}
	set(s, "a", "x", 1)
	store.Fail(errFull)
	if err := s.Save(t.Context(), "a"); !errors.Is(err, errFull) {
		t.Errorf("Save() = %v, want %v", err, errFull)
	}
	if value, known := s.Get("a"); !known || value["x"] != 1 {
		t.Errorf("got value %v, %v after a failed write", value, known)
	}
	store.Fail(nil)
	if err := s.Save(t.Context(), "a"); err != nil || stored(t, store, "counts/a") != `{"x":1}` {
		t.Errorf("Save() = %v, stored %q", err, stored(t, store, "counts/a"))
	}
	if err := store.Save(t.Context(), "counts/a", []byte("untouched")); err != nil {
		t.Fatal(err)
	}
	set(s, "a", "x", 1)
	if err := s.Save(t.Context(), "a"); err != nil || stored(t, store, "counts/a") != "untouched" {
		t.Errorf("Save() of an equal value = %v, stored %q", err, stored(t, store, "counts/a"))
	}
	s.Change("a", func(map[string]int) map[string]int { return nil })
	if err := s.Save(t.Context(), "a"); err != nil || stored(t, store, "counts/a") != "" {
		t.Errorf("Save() of an empty value = %v, stored %q", err, stored(t, store, "counts/a"))
	}
}

// TestCommit checks that Commit sets a value only if it could be written.
func TestCommit(t *testing.T) {
	store := &targettest.Store{}
	s := New[map[string]int](store, "counts/")
	store.Fail(errFull)
	next := func(map[string]int) map[string]int { return map[string]int{"x": 1} }
	if err := s.Commit(t.Context(), "a", next); !errors.Is(err, errFull) {
		t.Errorf("Commit() = %v, want %v", err, errFull)
	}
	if value, known := s.Get("a"); known || len(s.Names()) > 0 {
		t.Errorf("got value %v after a failed commit", value)
	}
	store.Fail(nil)
	if err := s.Commit(t.Context(), "a", next); err != nil || !slices.Equal(s.Names(), []string{"a"}) {
		t.Errorf("Commit() = %v with names %q", err, s.Names())
	}
	if err := New[map[string]int](nil, "").Commit(t.Context(), "a", next); err != nil {
		t.Errorf("Commit() without a store = %v", err)
	}
}

// TestLoad checks that Load replaces all values, unless an entry cannot be decoded.
func TestLoad(t *testing.T) {
	store := &targettest.Store{}
	s := New[map[string]int](store, "counts/")
	set(s, "b", "y", 2)
	if err := store.Save(t.Context(), "counts/a", []byte(`{"x":1}`)); err != nil {
		t.Fatal(err)
	}
	if err := s.Load(t.Context()); err != nil || !slices.Equal(s.Names(), []string{"a"}) {
		t.Errorf("Load() = %v with names %q", err, s.Names())
	}
	if err := store.Save(t.Context(), "counts/a", []byte("{")); err != nil {
		t.Fatal(err)
	}
	if err := s.Load(t.Context()); !errors.Is(err, targets.ErrTransient) || !slices.Equal(s.Names(), []string{"a"}) {
		t.Errorf("Load() = %v with names %q, want ErrTransient and the previous values", err, s.Names())
	}
	var corrupt *CorruptError
	if _, _, err := s.Read(t.Context(), "a"); !errors.As(err, &corrupt) || string(corrupt.Text) != "{" {
		t.Errorf("Read() = %v, want a CorruptError", err)
	}
}

// TestInherit checks that a newer Store writes the value that the older one could not write.
func TestInherit(t *testing.T) {
	store := &targettest.Store{}
	older := New[map[string]int](store, "counts/")
	set(older, "a", "x", 1)
	newer := New[map[string]int](store, "counts/")
	newer.Inherit(older, "a")
	newer.Inherit(older, "b")
	if err := newer.Save(t.Context(), "a"); err != nil || stored(t, store, "counts/a") != `{"x":1}` {
		t.Errorf("Save() = %v, stored %q", err, stored(t, store, "counts/a"))
	}
	if _, known := newer.Get("b"); known {
		t.Error("got a value that the older Store does not have")
	}
}

// slow is a store with writes that wait until resume is closed.
type slow struct {
	targettest.Store
	resume chan struct{}
}

func (s *slow) Save(ctx context.Context, key string, value []byte) error {
	<-s.resume
	return s.Store.Save(ctx, key, value)
}

// TestOrder checks that among concurrent writes, the last value is written last, and that a
// write does not wait after its context has ended.
func TestOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &slow{resume: make(chan struct{})}
		s := New[map[string]int](store, "")
		for value := 1; value <= 3; value++ {
			set(s, "a", "x", value)
			go func() { _ = s.Save(t.Context(), "a") }()
			synctest.Wait()
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if err := s.Save(ended, "a"); !errors.Is(err, context.Canceled) {
			t.Errorf("Save() = %v, want context.Canceled", err)
		}
		close(store.resume)
		synctest.Wait()
		if got := stored(t, &store.Store, "a"); got != `{"x":3}` {
			t.Errorf("stored %q, want the last value", got)
		}
	})
}
