package round

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/hpad/hpad/daemon/records"
)

// TestLastCompletedRound checks that the last completed round, up to which a restart replays
// passes, advances only when a round of a later tick completes without being interrupted by a stop.
func TestLastCompletedRound(t *testing.T) {
	noon := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	tick := func(after time.Duration) *round { return &round{now: noon.Add(after), tick: true} }
	for _, test := range []struct {
		name   string
		rounds []*round
		stop   bool
		want   time.Time
	}{
		{name: "ticks", rounds: []*round{tick(0), tick(15 * time.Second)}, want: noon.Add(15 * time.Second)},
		{name: "an older round completes later", rounds: []*round{tick(15 * time.Second), tick(0)}, want: noon.Add(15 * time.Second)},
		{name: "two rounds of one tick", rounds: []*round{tick(0), tick(0)}, want: noon},
		{name: "with a round between ticks", rounds: []*round{tick(0), {now: noon.Add(7 * time.Second)}}, want: noon},
		{name: "only a round between ticks", rounds: []*round{{now: noon}}},
		{name: "interrupted", rounds: []*round{tick(0)}, stop: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if test.stop {
				cancel()
			}
			env := &Env{RunContext: ctx, Recorder: records.NewRecorder(nil, nil, nil, nil)}
			s := NewScheduler(env, NewServiceManager(nil, 0, nil))
			s.rounds = slices.Clone(test.rounds)
			for _, r := range test.rounds {
				s.complete(r)
			}
			if !s.newest.Equal(test.want) {
				t.Errorf("last completed round = %s, want %s", s.newest, test.want)
			}
			if len(s.rounds) != 0 {
				t.Errorf("%d rounds left, want 0", len(s.rounds))
			}
		})
	}
}
