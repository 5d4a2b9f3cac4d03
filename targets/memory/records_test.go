package memory

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
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
	if r.Load(now); r.Failure() != nil {
		t.Fatal(r.Failure())
	}
	return r
}

// see records the start time of an instance at its first reading.
func see(r *Records[life], id string, now time.Time) life {
	return r.Observe(id, now, func(before life, known bool) life {
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
		t.Error("Recall() of an unknown instance succeeded")
	}
	for _, id := range []string{"i-1", "i-2", "i-11"} {
		see(r, id, noon)
	}
	r.Save(noon)
	later := noon.Add(time.Hour)
	r = loaded(t, store, later) // a restart
	if got := see(r, "i-1", later); !got.Started.Equal(noon) {
		t.Errorf("start time after a restart = %v, want %v", got.Started, noon)
	}
	r.Observe("i-1", later, func(before life, _ bool) life { return life{before.Started, "web"} })
	r.Save(later)
	r = loaded(t, store, later)
	got, known := r.Recall("i-1")
	if want := (life{noon, "web"}); !known || !got.Equal(want) {
		t.Errorf("Recall() = %+v, %t, want %+v, true", got, known, want)
	}
	if _, known := r.Recall("i-11"); !known {
		t.Error("an unchanged record was lost")
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
	r.Save(noon)
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
	r.Save(noon.Add(time.Minute))
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
	r.Save(noon)
	for hour := 1; hour <= 26; hour++ {
		now := noon.Add(time.Duration(hour) * time.Hour)
		see(r, "i-7", now)
		r.Save(now)
		if _, known := r.Recall("i-8"); known != (hour <= 24) {
			t.Errorf("Recall() = %t for an instance that disappeared %d hours ago", known, hour)
		}
	}
	entries, err := store.List(t.Context(), "")
	if err != nil || len(entries) != 1 {
		t.Errorf("stored entries a day after all but one instance disappeared = %d, %v, want 1", len(entries), err)
	}
	if _, known := r.Recall("i-7"); !known {
		t.Error("the record of an existing instance was deleted")
	}
}

func TestRecordsWithoutStore(t *testing.T) {
	store := &targettest.Store{}
	full := errors.New("no space left on device")
	r := New[life](store, prefix, byEnd)
	store.Fail(full)
	if r.Load(noon); !errors.Is(r.Failure(), full) {
		t.Errorf("Failure() = %v, want the cause", r.Failure())
	}
	store.Fail(nil)
	if r.Load(noon); r.Failure() != nil {
		t.Fatal(r.Failure())
	}
	see(r, "i-1", noon)
	store.Fail(full)
	r.Save(noon)
	if err := r.Failure(); !errors.Is(err, full) {
		t.Errorf("Failure() = %v, want the cause", err)
	}
	store.Fail(nil)
	r.Save(noon)
	if err := r.Failure(); err != nil {
		t.Errorf("Failure() after a successful write = %v, want nil", err)
	}
	if _, known := loaded(t, store, noon).Recall("i-1"); !known {
		t.Error("a record was not stored after the store recovered")
	}
	if err := store.Save(t.Context(), prefix+"zz", []byte("corrupt")); err != nil {
		t.Fatal(err)
	}
	corrupt := New[life](store, prefix, byEnd)
	see(corrupt, "i-1", noon.Add(time.Hour))
	if corrupt.Save(noon); corrupt.Failure() == nil {
		t.Error("Failure() with an invalid entry = nil, want an error")
	}
	none := loaded(t, nil, noon)
	see(none, "i-1", noon)
	none.Save(noon)
	if _, known := none.Recall("i-1"); !known || none.Failure() != nil {
		t.Errorf("Recall() without a store = %t, error %v, want true, nil", known, none.Failure())
	}
	none.Save(noon.Add(25 * time.Hour))
	if _, known := none.Recall("i-1"); known {
		t.Error("Recall() without a store succeeded a day after the instance disappeared")
	}
}

// TestRecordsSlowStore checks that a store that does not respond delays calls by at most storeWait,
// and that the stored records are used and the new records are written when it responds again.
func TestRecordsSlowStore(t *testing.T) {
	for name, fails := range map[string]func(store *hanging, r *Records[life]){
		"at the start": func(store *hanging, _ *Records[life]) { store.hangs.Store(true) },
		"later": func(store *hanging, r *Records[life]) {
			r.Load(noon)
			store.hangs.Store(true)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				before := &targettest.Store{}
				r := loaded(t, before, noon)
				see(r, "i-1", noon)
				r.Save(noon)
				r.Close()

				store := &hanging{Store: before}
				r = New[life](store, prefix, byEnd)
				defer r.Close()
				fails(store, r)
				later := noon.Add(time.Hour)
				for range 10 {
					begun := time.Now()
					r.Load(later)
					see(r, "i-1", later)
					see(r, "i-2", later)
					r.Save(later)
					if took := time.Since(begun); took > 2*storeWait {
						t.Errorf("the reading took %v, want at most %v", took, 2*storeWait)
					}
					time.Sleep(10 * time.Second)
				}
				if r.Failure() == nil {
					t.Error("Failure() = nil, want an error because the store does not respond")
				}
				store.hangs.Store(false)
				time.Sleep(storeTimeout)
				r.Save(later)
				if got := see(r, "i-1", later); !got.Started.Equal(noon) {
					t.Errorf("start time = %v, want the stored %v", got.Started, noon)
				}
				if _, known := loaded(t, before, later).Recall("i-2"); !known || r.Failure() != nil {
					t.Errorf("a new instance was stored = %t, error %v", known, r.Failure())
				}
			})
		})
	}
}

// hanging is a store that can stop responding.
type hanging struct {
	*targettest.Store
	hangs atomic.Bool
}

func (h *hanging) List(ctx context.Context, prefix string) (map[string][]byte, error) {
	if h.hangs.Load() {
		<-ctx.Done()
	}
	return h.Store.List(ctx, prefix)
}

func (h *hanging) Save(ctx context.Context, key string, value []byte) error {
	if h.hangs.Load() {
		<-ctx.Done()
	}
	return h.Store.Save(ctx, key, value)
}

func TestReadinessChange(t *testing.T) {
	at := func(minutes int) time.Time { return noon.Add(time.Duration(minutes) * time.Minute) }
	now := at(10)
	for _, test := range []struct {
		name          string
		turned        bool
		before, since time.Time
		want          time.Time
	}{
		{"unchanged", false, at(1), at(5), at(1)},
		{"changed at a reported time", true, at(1), at(5), at(5)},
		{"changed at an unreported time", true, at(1), time.Time{}, now},
		{"changed at an earlier reported time", true, at(6), at(5), now},
		{"changed at the same reported time", true, at(5), at(5), now},
		{"changed at a future reported time", true, at(1), at(11), now},
		{"first reading", false, time.Time{}, at(5), at(5)},
		{"first reading, unreported time", false, time.Time{}, time.Time{}, now},
		{"first reading, future reported time", true, time.Time{}, at(11), now},
	} {
		if got := ReadinessChange(test.turned, test.before, test.since, now); !got.Equal(test.want) {
			t.Errorf("%s: ReadinessChange() = %v, want %v", test.name, got, test.want)
		}
	}
}

func TestStartTime(t *testing.T) {
	now, never := noon, time.Time{}
	for name, test := range map[string]struct {
		said, before time.Time
		running      bool
		want         time.Time
		again        bool
	}{
		"first reading, reported time": {noon.Add(-time.Hour), never, true, noon.Add(-time.Hour), false},
		"first reading, running":       {never, never, true, now, false},
		"not running yet":              {never, never, false, never, false},
		"unreported time":              {never, noon.Add(-time.Hour), true, noon.Add(-time.Hour), false},
		"unreported time, not running": {never, noon.Add(-time.Hour), false, noon.Add(-time.Hour), false},
		"the same time":                {noon.Add(-time.Hour), noon.Add(-time.Hour), true, noon.Add(-time.Hour), false},
		"restarted":                    {noon.Add(-time.Minute), noon.Add(-time.Hour), true, noon.Add(-time.Minute), true},
		"earlier reported time":        {noon.Add(-time.Hour), noon.Add(-time.Minute), true, noon.Add(-time.Hour), false},
	} {
		if got, again := StartTime(test.said, test.before, test.running, now); !got.Equal(test.want) || again != test.again {
			t.Errorf("%s: StartTime() = %v, %t, want %v, %t", name, got, again, test.want, test.again)
		}
	}
}
