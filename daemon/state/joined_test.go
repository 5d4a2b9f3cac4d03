package state

import (
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/clock"
)

// newParts returns the records of two parts.
func newParts() map[string]*memoryRecords {
	return map[string]*memoryRecords{"1-2": {values: map[string][]byte{}}, "2-2": {values: map[string][]byte{}}}
}

// partOf has autoscalers in the part that they are named by.
func partOf(autoscaler string) string { return autoscaler[:3] }

func openParts(t *testing.T, parts map[string]*memoryRecords) Shared {
	t.Helper()
	all := map[string]PartRecords{}
	for name, part := range parts {
		all[name] = PartRecords{Records: part, Longest: 3 * time.Minute}
	}
	s, err := OpenShared(t.Context(), t.TempDir(), Joined(all, partOf), time.Second, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

var noon = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

// TestJoined writes and reads the state of two parts as one, and each alone.
func TestJoined(t *testing.T) {
	parts := newParts()
	s := openParts(t, parts)
	everything, fleet := policy.Scope{}, policy.Scope{Fleet: "prod"}
	changes := Changes{
		Records: map[string]Record{"1-2a": {Created: noon}, "2-2b": {Created: noon}},
		Pauses: map[policy.Scope]*policy.Pause{
			everything: {Since: noon}, fleet: {Scope: fleet, Since: noon},
			{Autoscaler: "2-2b"}: {Scope: policy.Scope{Autoscaler: "2-2b"}, Since: noon},
		},
		Removals:  map[string]Removals{"prod": {Rounds: []Removal{{Time: noon, Instances: 3}}}},
		LastRound: noon, Clock: clock.State{Time: noon},
	}
	if err := s.Commit(t.Context(), changes); err != nil {
		t.Fatal(err)
	}
	own := s.Fleet("prod")
	for _, key := range []string{"readiness/3f~2-2", "specification/1"} {
		if err := own.Save(t.Context(), key, []byte("known")); err != nil {
			t.Fatal(err)
		}
	}
	keys := func(part string) []string { return slices.Sorted(maps.Keys(parts[part].values)) }
	if got, want := keys("1-2"), []string{
		"autoscalers/1-2a", "fleets/prod/specification/1", "meta/clock", "meta/last_round", "meta/pause/", "meta/pause/f/prod", "meta/removals/prod",
	}; !slices.Equal(got, want) {
		t.Errorf("the first part has %q, want %q", got, want)
	}
	if got, want := keys("2-2"), []string{
		"autoscalers/2-2b", "fleets/prod/readiness/3f~2-2", "meta/clock", "meta/last_round", "meta/pause/", "meta/pause/a/2-2b", "meta/pause/f/prod", "meta/removals/prod",
	}; !slices.Equal(got, want) {
		t.Errorf("the second part has %q, want %q", got, want)
	}
	parts["2-2"].err = ErrFenced
	if err := s.Commit(t.Context(), Changes{Records: map[string]Record{"2-2b": {Created: noon}}}); !errors.Is(err, ErrFenced) {
		t.Errorf("a write of a part that is another's: %v", err)
	}
	if err := s.Commit(t.Context(), Changes{Records: map[string]Record{"9-2c": {Created: noon}}}); !errors.Is(err, ErrFenced) {
		t.Errorf("a write of a part that is not there: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	delete(parts, "2-2")
	s = openParts(t, parts)
	snapshot, err := s.Load(t.Context())
	if err != nil || len(snapshot.Autoscalers) != 1 || len(snapshot.Pauses) != 2 || snapshot.Removals["prod"].Sum() != 3 {
		t.Errorf("one part alone is %+v, %v", snapshot, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestJoinedRemovals counts what two owners of parts took away at the same times, and what
// was taken away before there were parts, once each.
func TestJoinedRemovals(t *testing.T) {
	for _, instances := range [][2]int64{{5, 7}, {5, 5}} {
		parts := newParts()
		before := Removal{Time: noon.Add(-time.Minute), Instances: 2}
		for name, part := range parts { // as a division leaves them
			s := openShared(t, t.TempDir(), part)
			if err := s.Commit(t.Context(), Changes{Removals: map[string]Removals{"prod": {Rounds: []Removal{before}}}, LastRound: noon, Clock: clock.State{Time: noon}}); err != nil {
				t.Fatal(name, err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
		for i, name := range []string{"1-2", "2-2"} {
			s := openParts(t, map[string]*memoryRecords{name: parts[name]})
			snapshot, err := s.Load(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			removals := snapshot.Removals["prod"]
			for range 2 { // another change writes it again
				counted := Removals{Rounds: append(slices.Clone(removals.Rounds), Removal{Time: noon, Instances: instances[i]})}
				if err := s.Commit(t.Context(), Changes{Removals: map[string]Removals{"prod": counted}, LastRound: noon, Clock: clock.State{Time: noon}}); err != nil {
					t.Fatal(err)
				}
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 { // the second time each part has what both had
			s := openParts(t, parts)
			snapshot, err := s.Load(t.Context())
			if got, want := snapshot.Removals["prod"].Sum(), 2+instances[0]+instances[1]; got != want || err != nil {
				t.Errorf("%d are counted, %v, want %d", got, err, want)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestJoinedOfTwoOwners joins parts that two owners left: with other last rounds, other
// clocks and pauses that one of them has alone.
func TestJoinedOfTwoOwners(t *testing.T) {
	parts := newParts()
	everything := policy.Scope{}
	rules := policy.WindowRules{Behavior: true, Down: 3600 * time.Second}
	record := func(at time.Time) Record {
		return Record{
			Created: at, Through: at, Replay: &Replay{Replicas: 4, Period: time.Minute, Rules: rules},
			Memory: policy.Memory{Recommendations: []policy.Recommendation{{Replicas: 4, Time: at}}}, Target: targets.Ref{Fleet: "prod", Name: "x"},
		}
	}
	one := openParts(t, map[string]*memoryRecords{"1-2": parts["1-2"]})
	if err := one.Commit(t.Context(), Changes{
		Records: map[string]Record{"1-2a": record(noon)}, LastRound: noon.Add(2 * time.Minute), Clock: clock.State{Time: noon.Add(2 * time.Minute)},
		Pauses: map[policy.Scope]*policy.Pause{everything: {Since: noon, Reason: "sale"}},
	}); err != nil {
		t.Fatal(err)
	}
	// Its clock began an hour ahead, and it wrote three minutes later at most.
	two := openParts(t, map[string]*memoryRecords{"2-2": parts["2-2"]})
	if err := two.Commit(t.Context(), Changes{
		Records: map[string]Record{"2-2b": record(noon.Add(time.Hour))}, LastRound: noon.Add(time.Hour + 5*time.Minute),
		Clock: clock.State{Time: noon.Add(time.Hour + 5*time.Minute)},
	}); err != nil {
		t.Fatal(err)
	}
	for _, s := range []Shared{one, two} {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	parts["1-2"].err, parts["1-2"].once = errors.New("no answer"), true
	if err := Joined(map[string]PartRecords{"1-2": {Records: parts["1-2"], Longest: 3 * time.Minute}, "2-2": {Records: parts["2-2"], Longest: 3 * time.Minute}}, partOf).
		Load(t.Context(), func(string, []byte) error { return nil }); err == nil {
		t.Fatal("nothing says that it was not written back")
	}
	for range 2 { // the second time all of it was written back
		s := openParts(t, parts)
		snapshot, err := s.Load(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if !snapshot.LastRound.Equal(noon.Add(time.Hour + 5*time.Minute)) {
			t.Errorf("the last round is %s", snapshot.LastRound)
		}
		for name, through := range map[string]time.Time{"1-2a": noon.Add(time.Hour + 2*time.Minute), "2-2b": noon.Add(time.Hour + 5*time.Minute)} {
			if got := snapshot.Autoscalers[name]; !got.Through.Equal(through) || !got.Created.Equal(noon.Add(time.Hour)) {
				t.Errorf("%s went through %s and began at %s, want %s and 13:00", name, got.Through, got.Created, through)
			}
		}
		if len(snapshot.Pauses) != 1 || !snapshot.Pauses[0].Since.Equal(noon.Add(time.Hour)) {
			t.Errorf("the pauses are %+v", snapshot.Pauses)
		}
		if parts["2-2"].values["meta/pause/"] == nil {
			t.Error("a pause of everything is not in each part")
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestCombineOfTwoFleets has an autoscaler in the shard of the fleet that it had before, too.
func TestCombineOfTwoFleets(t *testing.T) {
	shard := func(fleet string, through time.Time) map[string][]byte {
		records := &memoryRecords{values: map[string][]byte{}}
		s := openShared(t, t.TempDir(), records)
		if err := s.Commit(t.Context(), Changes{
			Records: map[string]Record{"a": {
				Created: noon, Through: through, Target: targets.Ref{Fleet: fleet, Name: "x"},
				Replay: &Replay{Replicas: 4, Period: time.Minute},
			}},
			LastRound: noon.Add(time.Hour), Clock: clock.State{Time: noon.Add(time.Hour)},
		}); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		return records.values
	}
	alpha, prod := shard("alpha", noon.Add(time.Minute)), shard("prod", noon)
	for _, shards := range [][]map[string][]byte{{alpha, prod}, {prod, alpha}} {
		whole, err := Combine(shards, nil)
		if err != nil {
			t.Fatal(err)
		}
		if fleets, err := FleetsOf(whole); err != nil || fleets["a"] != "alpha" {
			t.Errorf("the record is of fleet %q, %v, want that of the later one", fleets["a"], err)
		}
	}
}
