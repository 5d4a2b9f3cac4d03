package state

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hpad/hpad/test/wait"
)

// TestJoinedSaves checks that values that are saved during a write share one transaction.
func TestJoinedSaves(t *testing.T) {
	const saves = 100
	dir := t.TempDir()
	s, _ := open(t, dir).(*store)
	defer func() { closeStore(t, s) }()
	s.writing.Lock() // another write
	errs := make(chan error, saves)
	for n := range saves {
		go func() { errs <- s.Fleet("one").Save(t.Context(), fmt.Sprint("k", n), []byte("value")) }()
	}
	wait.For(t, time.Minute, "joined saves", func() (string, bool) {
		s.joining.Lock()
		defer s.joining.Unlock()
		if s.next == nil {
			return "no save has started", false
		}
		return fmt.Sprintf("%d have joined", len(s.next.values)), len(s.next.values) == saves
	})
	s.writing.Unlock()
	for range saves {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if all, err := s.Fleet("one").List(t.Context(), "k"); len(all) != saves || err != nil {
		t.Errorf("stored values = %d, %v, want %d", len(all), err, saves)
	}
}

func TestFleetStore(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	defer func() { closeStore(t, s) }()
	ctx := t.Context()
	one, other := s.Fleet("one"), s.Fleet("other")

	if value, err := one.Load(ctx, "k"); value != nil || err != nil {
		t.Errorf("Load from an empty store = %q, %v", value, err)
	}
	if all, err := one.List(ctx, ""); len(all) != 0 || err != nil {
		t.Errorf("List of an empty store = %v, %v", all, err)
	}
	if err := one.Delete(ctx, "k"); err != nil {
		t.Errorf("delete a missing key: %v", err)
	}
	want := map[string][]byte{"seen/a": []byte("1"), "seen/b": {}, "seem": []byte("\x00\xff"), "template": []byte("{}")}
	value := []byte("1")
	for key, text := range want {
		if key == "seen/a" {
			text = value
		}
		if err := one.Save(ctx, key, text); err != nil {
			t.Fatalf("save %q: %v", key, err)
		}
	}
	value[0] = 'x' // the store must keep a copy
	if err := one.Save(ctx, "nil", nil); err != nil {
		t.Fatal(err)
	}
	if err := other.Save(ctx, "template", []byte("of the other")); err != nil {
		t.Fatal(err)
	}
	if err := other.Delete(ctx, "seem"); err != nil {
		t.Fatal(err)
	}
	closeStore(t, s)
	s = open(t, dir)
	one, other = s.Fleet("one"), s.Fleet("other")

	got, err := one.Load(ctx, "nil")
	if err != nil || got == nil || len(got) != 0 {
		t.Errorf("Load of an empty value = %v, %v", got, err)
	}
	if err := one.Delete(ctx, "nil"); err != nil {
		t.Fatal(err)
	}
	all, err := one.List(ctx, "")
	if diff := cmp.Diff(want, all); diff != "" || err != nil {
		t.Errorf("list: %v (-want +got):\n%s", err, diff)
	}
	all["seen/a"][0] = 'y' // the caller may modify the result
	some, err := one.List(ctx, "seen/")
	if diff := cmp.Diff(map[string][]byte{"seen/a": []byte("1"), "seen/b": {}}, some); diff != "" || err != nil {
		t.Errorf("list seen/: %v (-want +got):\n%s", err, diff)
	}
	all, err = other.List(ctx, "")
	if diff := cmp.Diff(map[string][]byte{"template": []byte("of the other")}, all); diff != "" || err != nil {
		t.Errorf("the other fleet: %v (-want +got):\n%s", err, diff)
	}
}
