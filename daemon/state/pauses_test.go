package state

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hpad/hpad/policy"
)

func TestPauses(t *testing.T) {
	dir := t.TempDir()
	since := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	kept := map[policy.Scope]*policy.Pause{}
	for i, scope := range []policy.Scope{{}, {Fleet: "prod"}, {Autoscaler: "prod"}, {Autoscaler: "fleet/web"}, {Autoscaler: strings.Repeat("x", 300)}} {
		kept[scope] = &policy.Pause{Scope: scope, Direction: policy.Down, Author: "alice", Since: since.Add(time.Duration(i) * time.Second)}
	}
	replaced := policy.Pause{Direction: policy.Up, Since: since, Until: since.Add(time.Hour), Reason: "deploy"}
	gone := policy.Scope{Fleet: "prod"}
	for _, changes := range []map[policy.Scope]*policy.Pause{kept, {{}: &replaced, gone: nil, {Fleet: "never"}: nil}} {
		store := open(t, dir)
		commit(t, store, Changes{Pauses: changes})
		if err := store.Close(); err != nil {
			t.Fatal(err)
		}
	}
	kept[policy.Scope{}] = &replaced
	delete(kept, gone)
	var want []policy.Pause
	for _, pause := range kept {
		want = append(want, *pause)
	}
	store := open(t, dir)
	snapshot := load(t, store)
	order := func(a, b policy.Pause) int { return strings.Compare(a.String(), b.String()) }
	slices.SortFunc(want, order)
	slices.SortFunc(snapshot.Pauses, order)
	if diff := cmp.Diff(want, snapshot.Pauses); diff != "" {
		t.Errorf("pauses (-want +got):\n%s", diff)
	}
	if len(snapshot.Autoscalers) != 0 || !snapshot.LastRound.IsZero() {
		t.Errorf("other values were loaded from pauses: %+v", snapshot)
	}

	ahead := snapshot.WithoutFuture(since.Add(-time.Minute)).Pauses
	for _, pause := range ahead {
		if pause.Since.After(since.Add(-time.Minute)) || !pause.Until.IsZero() && pause.Until.Sub(pause.Since) != time.Hour {
			t.Errorf("pauses after the clock was set back = %+v", pause)
		}
	}
}
