package cluster

import (
	"slices"
	"testing"
	"time"

	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/state"
	"github.com/hpad/hpad/targets"
)

// TestDeparted holds who is named as missing where an autoscaler's history is asked for:
// whoever decided for it and is no member any more.
func TestDeparted(t *testing.T) {
	now := time.Now()
	hour := func(n int) time.Time { return now.Add(time.Duration(n) * time.Hour) }
	c := &Cluster{}
	c.active.Store(&configuration{
		whole:  &config.Config{Autoscalers: map[string]*config.Autoscaler{"web": {Name: "web", Target: targets.Ref{Fleet: "prod", Name: "web"}}}},
		fleets: map[string]*config.Config{"prod": {}},
	})
	view := View{
		Members: map[string]Member{"here": {}, "back": {}},
		Fleets: map[string]Ownership{
			"prod": {Last: "last", Past: []PastOwner{
				{"forgotten", now.Add(-state.DefaultRetention - time.Hour)}, {"old", hour(-20)}, {"back", hour(-2)}, {"late", hour(-1)},
			}},
			"test": {Last: "elsewhere", Past: []PastOwner{{"another", hour(-1)}}},
		},
	}
	for _, tt := range []struct {
		since time.Time
		want  []string
	}{
		{time.Time{}, []string{"last", "late", "old"}},
		{hour(-10), []string{"last", "late"}},
	} {
		if got := (&clusterView{c, true}).departed(view, "web", tt.since); !slices.Equal(got, tt.want) {
			t.Errorf("since %v: %q, want %q", tt.since, got, tt.want)
		}
	}
	if got := (&clusterView{c, false}).departed(view, "web", time.Time{}); len(got) > 0 {
		t.Errorf("of one member alone: %q", got)
	}
}
