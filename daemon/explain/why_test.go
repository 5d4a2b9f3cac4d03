package explain

import (
	"strings"
	"testing"
	"time"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/settings"
)

// TestWhyAlternatingCauses checks the sentence about alternating causes that have no entries.
func TestWhyAlternatingCauses(t *testing.T) {
	from := time.Date(2026, 11, 21, 11, 5, 0, 0, time.UTC)
	const alternated = " alternated "
	for changes, want := range map[int]string{
		1:  "", // the cause returned to the previous cause, which has an entry
		57: " Between 11:05:00 and this time, the cause changed 57 times.",
	} {
		got := Why(api.Recorded{Time: from.Add(time.Hour), Unreported: &api.Unreported{Changes: changes, From: from}}, time.UTC)
		if !strings.HasSuffix(got, want) || strings.Contains(got, alternated) != strings.Contains(want, alternated) {
			t.Errorf("Why after %d changes = %q, want the end %q", changes, got, want)
		}
	}
}

// TestWhyOfReloads checks the sentence about a configuration change.
func TestWhyOfReloads(t *testing.T) {
	changes := []settings.Change{
		{Key: "metrics[0].query", Kind: settings.Changed, Before: `"a"`, After: `"b"`},
		{Key: "fleets.vm.services.web.env.DB_HOST", Kind: settings.Changed, Before: "<redacted>", After: "<redacted>"},
		{Key: "metrics[1]", Kind: settings.Added},
	}
	for author, want := range map[string]string{
		"alice": `The configuration changed (reload by alice): metrics[0].query: "a" -> "b"; fleets.vm.services.web.env.DB_HOST (another value); + metrics[1]; and 2 more.`,
		// No user requested this change.
		api.AuthorLabels:  `The configuration changed (labels): metrics[0].query: "a" -> "b"; fleets.vm.services.web.env.DB_HOST (another value); + metrics[1]; and 2 more.`,
		api.AuthorRestart: `The configuration changed (restart): metrics[0].query: "a" -> "b"; fleets.vm.services.web.env.DB_HOST (another value); + metrics[1]; and 2 more.`,
	} {
		entry := api.Recorded{Time: tick, Reload: &settings.Reload{Author: author, Changes: changes, More: 2}}
		if got := Why(entry, time.UTC); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	took := api.Recorded{Time: tick, Reload: &settings.Reload{Author: api.AuthorRestart, Takeover: &settings.Takeover{Member: "b", From: "a"}}}
	if got, want := Why(took, time.UTC), "Member b took over the fleet from a."; got != want {
		t.Errorf("Why() = %q, want %q", got, want)
	}
	adopted := api.Recorded{Time: tick, Reload: &settings.Reload{Author: "alice", Adopted: true}}
	if got, want := Why(adopted, time.UTC), "The configuration changed (adopt by alice): no key of this autoscaler."; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
