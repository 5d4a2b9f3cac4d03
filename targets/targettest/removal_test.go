package targettest

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hpad/hpad/targets"
)

// TestRemovable: instances go by name, once, with the count; protected ones, lost
// versions and bounds are refused.
func TestRemovable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := Removable{NewMemory("memory")}
		least := int32(1)
		ref := m.Add("web", MemoryTarget{Replicas: 4, Min: &least, StopDelay: time.Second})
		m.Protect("web", "web-3", true)
		read := func() targets.Reading {
			readings, err := m.Snapshot(t.Context(), []targets.Ref{ref})
			if err != nil {
				t.Fatal(err)
			}
			return readings[ref]
		}
		version := read().Version
		if err := m.Remove(t.Context(), ref, []string{"web-1", "web-3"}, version, "test"); !errors.Is(err, targets.ErrForbidden) || m.Replicas("web") != 4 {
			t.Errorf("Remove() of a protected instance = %v, count %d", err, m.Replicas("web"))
		}
		m.Inject(Fault{Call: WriteCall, Times: 1, Lost: true})
		if err := m.Remove(t.Context(), ref, []string{"web-1"}, version, "test"); !errors.Is(err, targets.ErrUnknownOutcome) || m.Replicas("web") != 3 {
			t.Errorf("Remove() with a lost answer = %v, count %d", err, m.Replicas("web"))
		}
		if err := m.Remove(t.Context(), ref, []string{"web-0"}, version, "test"); !errors.Is(err, targets.ErrConflict) {
			t.Errorf("Remove() at an old version = %v", err)
		}
		for range 2 {
			if err := m.Remove(t.Context(), ref, []string{"web-1", "web-0"}, "", "test"); err != nil || m.Replicas("web") != 2 {
				t.Errorf("Remove() = %v, count %d", err, m.Replicas("web"))
			}
		}
		if got := read(); got.SpecReplicas != 2 || got.StatusReplicas != 2 || deleting(got) != 2 || !got.Locations.At(3).Protected {
			t.Errorf("reading %+v", got)
		}
		m.Protect("web", "web-3", false)
		if err := m.Remove(t.Context(), ref, []string{"web-2", "web-3"}, "", "test"); !errors.Is(err, targets.ErrOutOfRange) {
			t.Errorf("Remove() below the least count = %v", err)
		}
		var taken [][]string
		for _, removal := range m.Removals() {
			taken = append(taken, removal.Taken)
		}
		if want := [][]string{nil, {"web-1"}, nil, {"web-0"}, nil, nil}; !slices.EqualFunc(taken, want, slices.Equal) {
			t.Errorf("taken %q, want %q", taken, want)
		}
		m.Lose("web", "web-2", true)
		if got := read(); got.SpecReplicas != 2 || !ids(got)["web-4"] || ids(got)["web-2"] {
			t.Errorf("instances %v of %d after a loss, want another one for web-2", ids(got), got.SpecReplicas)
		}
	})
}
