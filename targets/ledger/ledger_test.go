package ledger

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/targettest"
)

var errFull = errors.New("no space left on device")

func set(l *Ledger[Map[int]], name, key string, value int) {
	l.Change(name, func(before Map[int]) Map[int] {
		return before.With(func(m Map[int]) { m[key] = value })
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

// TestSave: what changed is stored, once; what could not be is stored later; what is
// empty is deleted.
func TestSave(t *testing.T) {
	store := &targettest.Store{}
	l := New[Map[int]](store, "counts/")
	if _, known := l.Of("a"); known || l.Save(t.Context(), "a") != nil {
		t.Error("there is something before anything was")
	}
	set(l, "a", "x", 1)
	store.Fail(errFull)
	if err := l.Save(t.Context(), "a"); !errors.Is(err, errFull) {
		t.Errorf("Save() = %v, want %v", err, errFull)
	}
	if value, known := l.Of("a"); !known || value["x"] != 1 {
		t.Errorf("what could not be stored is %v, %v", value, known)
	}
	store.Fail(nil)
	if err := l.Save(t.Context(), "a"); err != nil || stored(t, store, "counts/a") != `{"x":1}` {
		t.Errorf("Save() = %v, stored %q", err, stored(t, store, "counts/a"))
	}
	if err := store.Save(t.Context(), "counts/a", []byte("untouched")); err != nil {
		t.Fatal(err)
	}
	set(l, "a", "x", 1)
	if err := l.Save(t.Context(), "a"); err != nil || stored(t, store, "counts/a") != "untouched" {
		t.Errorf("Save() of the same = %v, stored %q", err, stored(t, store, "counts/a"))
	}
	l.Change("a", func(Map[int]) Map[int] { return nil })
	if err := l.Save(t.Context(), "a"); err != nil || stored(t, store, "counts/a") != "" || len(l.Names()) > 0 {
		t.Errorf("Save() of nothing = %v, stored %q with names %q", err, stored(t, store, "counts/a"), l.Names())
	}
}

// TestCommit: a value that cannot be stored does not become known.
func TestCommit(t *testing.T) {
	store := &targettest.Store{}
	l := New[Map[int]](store, "counts/")
	store.Fail(errFull)
	if err := l.Commit(t.Context(), "a", Map[int]{"x": 1}); !errors.Is(err, errFull) {
		t.Errorf("Commit() = %v, want %v", err, errFull)
	}
	if value, known := l.Of("a"); known {
		t.Errorf("%v is known", value)
	}
	store.Fail(nil)
	if err := l.Commit(t.Context(), "a", Map[int]{"x": 1}); err != nil || !slices.Equal(l.Names(), []string{"a"}) {
		t.Errorf("Commit() = %v with names %q", err, l.Names())
	}
	if err := New[Map[int]](nil, "").Commit(t.Context(), "a", nil); err != nil {
		t.Errorf("Commit() without a store = %v", err)
	}
}

// TestLoad: what is stored takes the place of what is known, unless it cannot be read.
func TestLoad(t *testing.T) {
	store := &targettest.Store{}
	l := New[Map[int]](store, "counts/")
	set(l, "b", "y", 2)
	if err := store.Save(t.Context(), "counts/a", []byte(`{"x":1}`)); err != nil {
		t.Fatal(err)
	}
	if err := l.Load(t.Context()); err != nil || !slices.Equal(l.Names(), []string{"a"}) {
		t.Errorf("Load() = %v with names %q", err, l.Names())
	}
	if err := store.Save(t.Context(), "counts/a", []byte("{")); err != nil {
		t.Fatal(err)
	}
	if err := l.Load(t.Context()); !errors.Is(err, targets.ErrTransient) || !slices.Equal(l.Names(), []string{"a"}) {
		t.Errorf("Load() = %v with names %q, want ErrTransient and what was known", err, l.Names())
	}
	var garbled *GarbledError
	if _, _, err := l.Read(t.Context(), "a"); !errors.As(err, &garbled) || string(garbled.Text) != "{" {
		t.Errorf("Read() = %v, want what is garbled", err)
	}
}

// TestInherit: a newer Ledger stores what the older one could not.
func TestInherit(t *testing.T) {
	store := &targettest.Store{}
	older := New[Map[int]](store, "counts/")
	set(older, "a", "x", 1)
	newer := New[Map[int]](store, "counts/")
	newer.Inherit(older, "a")
	newer.Inherit(older, "b")
	if err := newer.Save(t.Context(), "a"); err != nil || stored(t, store, "counts/a") != `{"x":1}` {
		t.Errorf("Save() = %v, stored %q", err, stored(t, store, "counts/a"))
	}
	if _, known := newer.Of("b"); known {
		t.Error("what the older one did not know is known")
	}
}

// slow is a store whose saves wait until they may go on.
type slow struct {
	targettest.Store
	goOn chan struct{}
}

func (s *slow) Save(ctx context.Context, key string, value []byte) error {
	<-s.goOn
	return s.Store.Save(ctx, key, value)
}

// TestOrder: the last value is stored last, and nobody waits for longer than wanted.
func TestOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &slow{goOn: make(chan struct{})}
		l := New[Map[int]](store, "")
		for value := 1; value <= 3; value++ {
			set(l, "a", "x", value)
			go func() { _ = l.Save(t.Context(), "a") }()
			synctest.Wait()
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if err := l.Save(ended, "a"); !errors.Is(err, context.Canceled) {
			t.Errorf("Save() = %v, want it to give up", err)
		}
		close(store.goOn)
		synctest.Wait()
		if got := stored(t, &store.Store, "a"); got != `{"x":3}` {
			t.Errorf("stored %q, want the last", got)
		}
	})
}
