package state

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/hpad/hpad/policy"
)

func naiveReplay(list []policy.Recommendation, r *Replay, through, lastRound time.Time) []policy.Recommendation {
	for tick := nextTick(through, r.Period); !tick.After(lastRound); tick = tick.Add(r.Period) {
		list = policy.Remember(r.Rules, list, policy.Recommendation{Replicas: r.Replicas, Held: r.Held, Time: tick})
	}
	return list
}

// inWindow returns the recommendations within the longest window before now, sorted.
func inWindow(rules policy.WindowRules, list []policy.Recommendation, now time.Time) []policy.Recommendation {
	window := rules.Down
	if rules.Behavior {
		window = max(rules.Up, rules.Down)
	}
	list = slices.DeleteFunc(slices.Clone(list), func(r policy.Recommendation) bool { return r.Time.Before(now.Add(-window)) })
	slices.SortFunc(list, func(a, b policy.Recommendation) int {
		if order := a.Time.Compare(b.Time); order != 0 {
			return order
		}
		return int(a.Replicas - b.Replicas)
	})
	return list
}

func nextTick(at time.Time, period time.Duration) time.Time {
	return time.Unix(0, (at.UnixNano()/int64(period)+1)*int64(period)).UTC()
}

// epoch is the start time of the tests. It is not a tick of most periods.
var epoch = time.Date(2026, 3, 1, 12, 0, 7, 0, time.UTC)

func TestReplayMatchesRemember(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		period := time.Duration(rapid.IntRange(1, 40).Draw(t, "period")) * time.Second
		rules := policy.WindowRules{
			Behavior: rapid.Bool().Draw(t, "behavior"),
			Up:       time.Duration(rapid.IntRange(0, 300).Draw(t, "up")) * time.Second,
			Down:     time.Duration(rapid.IntRange(0, 300).Draw(t, "down")) * time.Second,
		}
		var list []policy.Recommendation
		for range rapid.IntRange(0, 30).Draw(t, "entries") {
			// Times later than Through come from a clock that was set back.
			before := time.Duration(rapid.IntRange(-60, 700).Draw(t, "before")) * time.Second
			list = append(list, policy.Recommendation{
				Replicas: rapid.Int32Range(0, 9).Draw(t, "replicas"), Time: epoch.Add(-before),
			})
		}
		r := Record{
			Memory:  policy.Memory{Recommendations: list},
			Through: epoch,
			Replay:  &Replay{Replicas: rapid.Int32Range(0, 9).Draw(t, "recommended"), Held: rapid.Bool().Draw(t, "held"), Period: period, Rules: rules},
		}
		last := epoch.Add(time.Duration(rapid.IntRange(-100, 6000).Draw(t, "down for")) * time.Second)
		want := naiveReplay(list, r.Replay, epoch, last)
		got := replayed(r, last)
		if diff := cmp.Diff(inWindow(rules, want, last), inWindow(rules, got.Memory.Recommendations, last)); diff != "" {
			t.Fatalf("rules %+v, period %s (-naive +replayed):\n%s", rules, period, diff)
		}
		if again := replayed(got, last); !cmp.Equal(again, got) {
			t.Fatalf("a second replay changed the record:\n%s", cmp.Diff(got, again))
		}
	})
}

func TestReplayChangesNothing(t *testing.T) {
	record := Record{
		Memory:  policy.Memory{Recommendations: []policy.Recommendation{{Replicas: 3, Time: epoch}}},
		Through: epoch,
		Replay:  &Replay{Replicas: 3, Period: 15 * time.Second},
	}
	unassuming := record
	unassuming.Replay = nil
	tests := []struct {
		name      string
		record    Record
		lastRound time.Time
	}{
		{"no replay", unassuming, epoch.Add(time.Hour)},
		{"no round yet", record, time.Time{}},
		{"round before the record", record, epoch.Add(-time.Minute)},
		{"no tick in between", record, epoch.Add(time.Second)},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.record, replayed(test.record, test.lastRound)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
