package memory

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/targettest"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// life is a record.
type life struct {
	Started time.Time `json:"s"`
	Name    string    `json:"n,omitempty"`
}

func (l life) Equal(other life) bool { return l.Started.Equal(other.Started) && l.Name == other.Name }

const prefix = "lives/"

// byEnd uses the last digit of an ID as its shard.
func byEnd(id string) string { return id[len(id)-1:] }

func loaded(t *testing.T, store targets.Store, now time.Time) *Records[life] {
	t.Helper()
	r := New[life](store, prefix, byEnd)
	if err := r.Load(t.Context(), now); err != nil {
		t.Fatal(err)
	}
	return r
}

// see records the start time of an instance that is seen for the first time.
func see(r *Records[life], id string, now time.Time) life {
	return r.See(id, now, func(before life, known bool) life {
		if !known {
			before.Started = now
		}
		return before
	})
}

func TestRecords(t *testing.T) {
	store := &targettest.Store{}
	r := loaded(t, store, noon)
	if _, known := r.Recall("i-1"); known {
		t.Error("an instance is known that was never seen")
	}
	for _, id := range []string{"i-1", "i-2", "i-11"} {
		see(r, id, noon)
	}
	r.Save(t.Context(), noon)
	later := noon.Add(time.Hour)
	r = loaded(t, store, later) // a restart
	if got := see(r, "i-1", later); !got.Started.Equal(noon) {
		t.Errorf("started %v, want %v, as was known before the restart", got.Started, noon)
	}
	r.See("i-1", later, func(before life, _ bool) life { return life{before.Started, "web"} })
	r.Save(t.Context(), later)
	r = loaded(t, store, later)
	got, known := r.Recall("i-1")
	if want := (life{noon, "web"}); !known || !got.Equal(want) {
		t.Errorf("known is %t, %+v, want %+v", known, got, want)
	}
	if _, known := r.Recall("i-11"); !known {
		t.Error("what did not change is lost")
	}
}

// TestRecordsStored checks that a shard is stored as an object keyed by ID, under the prefix,
// and that unchanged shards are not written.
func TestRecordsStored(t *testing.T) {
	store := &targettest.Store{}
	r := loaded(t, store, noon)
	stored := func() map[string]string {
		entries, err := store.List(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		texts := map[string]string{}
		for key, text := range entries {
			texts[key] = string(text)
		}
		return texts
	}
	for _, id := range []string{"i-1", "i-2", "i-11"} {
		see(r, id, noon)
	}
	r.Save(t.Context(), noon)
	want := map[string]string{
		prefix + "1": `{"i-1":{"s":"2026-11-21T12:00:00Z"},"i-11":{"s":"2026-11-21T12:00:00Z"}}`,
		prefix + "2": `{"i-2":{"s":"2026-11-21T12:00:00Z"}}`,
	}
	if diff := cmp.Diff(want, stored()); diff != "" {
		t.Errorf("stored (-want +got):\n%s", diff)
	}
	for _, key := range slices.Collect(maps.Keys(want)) {
		want[key] = "untouched"
		if err := store.Save(t.Context(), key, []byte("untouched")); err != nil {
			t.Fatal(err)
		}
	}
	for _, id := range []string{"i-1", "i-2", "i-11"} {
		see(r, id, noon.Add(time.Minute))
	}
	r.Save(t.Context(), noon.Add(time.Minute))
	if diff := cmp.Diff(want, stored()); diff != "" {
		t.Errorf("stored (-want +got):\n%s", diff)
	}
}

func TestRecordsForget(t *testing.T) {
	store := &targettest.Store{}
	r := loaded(t, store, noon)
	for n := range 300 {
		see(r, fmt.Sprintf("i-%d", n), noon)
	}
	r.Save(t.Context(), noon)
	for hour := 1; hour <= 26; hour++ {
		now := noon.Add(time.Duration(hour) * time.Hour)
		see(r, "i-7", now)
		r.Save(t.Context(), now)
		if _, known := r.Recall("i-8"); known != (hour <= 24) {
			t.Errorf("known is %t of an instance that vanished %d hours ago", known, hour)
		}
	}
	entries, err := store.List(t.Context(), "")
	if err != nil || len(entries) != 1 {
		t.Errorf("%d entries are stored a day after all but one instance vanished, %v, want 1", len(entries), err)
	}
	if _, known := r.Recall("i-7"); !known {
		t.Error("the instance that is still there is forgotten")
	}
}

func TestRecordsWithoutStore(t *testing.T) {
	store := &targettest.Store{}
	full := errors.New("no space left on device")
	r := New[life](store, prefix, byEnd)
	store.Fail(full)
	if err := r.Load(t.Context(), noon); !errors.Is(err, targets.ErrTransient) || !errors.Is(err, full) {
		t.Errorf("Load() = %v, want ErrTransient and the cause", err)
	}
	store.Fail(nil)
	if err := r.Load(t.Context(), noon); err != nil {
		t.Fatal(err)
	}
	see(r, "i-1", noon)
	store.Fail(full)
	r.Save(t.Context(), noon)
	if err := r.Failure(); !errors.Is(err, full) {
		t.Errorf("Failure() = %v, want the cause", err)
	}
	store.Fail(nil)
	r.Save(t.Context(), noon)
	if err := r.Failure(); err != nil {
		t.Errorf("Failure() = %v after it worked", err)
	}
	if _, known := loaded(t, store, noon).Recall("i-1"); !known {
		t.Error("what could not be stored at first was not stored later")
	}
	if err := store.Save(t.Context(), prefix+"zz", []byte("garbled")); err != nil {
		t.Fatal(err)
	}
	if err := New[life](store, prefix, byEnd).Load(t.Context(), noon); !errors.Is(err, targets.ErrTransient) {
		t.Errorf("Load() of a garbled entry = %v", err)
	}
	none := loaded(t, nil, noon)
	see(none, "i-1", noon)
	none.Save(t.Context(), noon)
	if _, known := none.Recall("i-1"); !known || none.Failure() != nil {
		t.Errorf("without a store: known %t, %v", known, none.Failure())
	}
	none.Save(t.Context(), noon.Add(25*time.Hour))
	if _, known := none.Recall("i-1"); known {
		t.Error("without a store an instance is known a day after it vanished")
	}
}

func TestTurned(t *testing.T) {
	at := func(minutes int) time.Time { return noon.Add(time.Duration(minutes) * time.Minute) }
	now := at(10)
	for _, test := range []struct {
		name          string
		turned        bool
		before, since time.Time
		want          time.Time
	}{
		{"is as it was", false, at(1), at(5), at(1)},
		{"turned when the platform says", true, at(1), at(5), at(5)},
		{"turned, says nobody when", true, at(1), time.Time{}, now},
		{"turned before it did last", true, at(6), at(5), now},
		{"turned when it did last", true, at(5), at(5), now},
		{"turns in the future", true, at(1), at(11), now},
		{"first seen", false, time.Time{}, at(5), at(5)},
		{"first seen, says nobody since when", false, time.Time{}, time.Time{}, now},
		{"first seen, turns in the future", true, time.Time{}, at(11), now},
	} {
		if got := Turned(test.turned, test.before, test.since, now); !got.Equal(test.want) {
			t.Errorf("%s: Turned() = %v, want %v", test.name, got, test.want)
		}
	}
}

func TestBegun(t *testing.T) {
	now, never := noon, time.Time{}
	for name, test := range map[string]struct {
		said, before time.Time
		running      bool
		want         time.Time
		again        bool
	}{
		"first seen, with a time":     {noon.Add(-time.Hour), never, true, noon.Add(-time.Hour), false},
		"first seen running":          {never, never, true, now, false},
		"not running yet":             {never, never, false, never, false},
		"seen before":                 {never, noon.Add(-time.Hour), true, noon.Add(-time.Hour), false},
		"the time is no longer told":  {never, noon.Add(-time.Hour), false, noon.Add(-time.Hour), false},
		"the same time":               {noon.Add(-time.Hour), noon.Add(-time.Hour), true, noon.Add(-time.Hour), false},
		"started again":               {noon.Add(-time.Minute), noon.Add(-time.Hour), true, noon.Add(-time.Minute), true},
		"told to have been there all": {noon.Add(-time.Hour), noon.Add(-time.Minute), true, noon.Add(-time.Hour), false},
	} {
		if got, again := Begun(test.said, test.before, test.running, now); !got.Equal(test.want) || again != test.again {
			t.Errorf("%s: Begun() = %v, %t, want %v, %t", name, got, again, test.want, test.again)
		}
	}
}
