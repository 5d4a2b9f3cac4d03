package memory_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/hpad/hpad/targets/memory"
	"github.com/hpad/hpad/targets/targettest"
)

// parted has targets in the part that they end with.
type parted struct{ *targettest.Store }

func (parted) Part(target string) string { return "~" + target[len(target)-1:] }

type seen int

func (s seen) Equal(other seen) bool { return s == other }

// TestParts stores what is known of an instance with the part of its target, also what was
// stored before there were parts, or in another one.
func TestParts(t *testing.T) {
	store := &targettest.Store{}
	first := func(id string) string { return id[:1] }
	now := time.Now()
	keys := func() []string {
		entries, err := store.List(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		return slices.Sorted(maps.Keys(entries))
	}
	whole := memory.New[seen](store, "known/", first)
	for i, id := range []string{"a1", "a2", "b1"} {
		whole.See(id, now, func(seen, bool) seen { return seen(i) })
	}
	whole.Save(t.Context(), now)
	if got := keys(); !slices.Equal(got, []string{"known/a", "known/b"}) {
		t.Fatalf("undivided it has %q", got)
	}
	for range 2 { // the second time it is all as it is to be
		divided := memory.New[seen](parted{store}, "known/", first)
		if err := divided.Load(t.Context(), now); err != nil {
			t.Fatal(err)
		}
		for id, target := range map[string]string{"a1": "web1", "a2": "web2"} {
			want := seen(id[1] - '1')
			if got := divided.SeeOf(target, id, now, func(before seen, _ bool) seen { return before }); got != want {
				t.Errorf("%s is known as %d, want %d", id, got, want)
			}
		}
		divided.Save(t.Context(), now)
		if got := keys(); !slices.Equal(got, []string{"known/a~1", "known/a~2", "known/b"}) {
			t.Errorf("divided it has %q", got)
		}
	}
}

// TestPartsOfTwoOwners has an instance stored with its part, and as it was before in a part
// of another owner.
func TestPartsOfTwoOwners(t *testing.T) {
	for range 20 { // in whatever order they are read
		store := &targettest.Store{}
		for key, text := range map[string]string{"known/a": `{"a1":1,"a2":2}`, "known/a~1": `{"a1":7}`} {
			if err := store.Save(t.Context(), key, []byte(text)); err != nil {
				t.Fatal(err)
			}
		}
		now := time.Now()
		records := memory.New[seen](parted{store}, "known/", func(id string) string { return id[:1] })
		if err := records.Load(t.Context(), now); err != nil {
			t.Fatal(err)
		}
		if got, _ := records.Recall("a1"); got != 7 {
			t.Fatalf("a1 is known as %d, want what is stored with its part", got)
		}
		records.Save(t.Context(), now)
		entries, err := store.List(t.Context(), "")
		if err != nil || string(entries["known/a"]) != `{"a2":2}` || string(entries["known/a~1"]) != `{"a1":7}` {
			t.Fatalf("stored is %q, %v", entries, err)
		}
	}
}
