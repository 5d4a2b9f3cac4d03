package demo

import (
	"testing"
	"time"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/policy"
)

var begin = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// view returns a decision after some seconds.
func view(second int, from, to int32, ratio float64) api.Autoscaler {
	at := begin.Add(time.Duration(second) * time.Second)
	v := api.Autoscaler{Decision: &policy.Decision{
		Time: at, Case: policy.CaseMetrics, CurrentReplicas: from, DesiredReplicas: to, Write: from != to,
		Metrics: []policy.MetricResult{{Name: "busy", Ratio: &ratio, ToleranceUp: 0.1, ToleranceDown: 0.1}},
	}}
	if from != to {
		v.Status.LastScaleTime = at
	}
	return v
}

// counts returns a story of counts, one decision each second.
func counts(all ...int32) *Story {
	story := new(Story)
	for i := range all {
		story.Tell(view(i, all[i], all[min(i+1, len(all)-1)], 1))
	}
	return story
}

func TestVerdict(t *testing.T) {
	const (
		notGrown  = "the fleet did not grow: it never had more workers than the 2 at the start"
		notShrunk = "the fleet did not shrink: it grew from 2 to 5 workers and stayed there"
	)
	for _, test := range []struct {
		name  string
		story *Story
		want  string
	}{
		{"nothing decided", counts(), "nothing was decided, so the fleet neither grew nor shrank"},
		{"steady", counts(2, 2, 2), notGrown},
		{"only down", counts(2, 1, 1), notGrown},
		{"down and back", counts(2, 1, 2), notGrown},
		{"only up", counts(2, 3, 5, 5), notShrunk},
		{"down before the peak", counts(2, 4, 3, 5), notShrunk},
		{"up and down", counts(2, 5, 4), ""},
		{"up, down and up again", counts(2, 5, 4, 5), ""},
		{"down first", counts(2, 1, 3, 2), ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := ""
			if err := test.story.Verdict(); err != nil {
				got = err.Error()
			}
			if got != test.want {
				t.Errorf("verdict = %q, want %q", got, test.want)
			}
		})
	}
}

func TestStoryCounts(t *testing.T) {
	story := counts(2, 5, 8, 8, 3, 1, 1)
	if story.Start != 2 || story.Peak != 8 || story.Least != 1 || story.Now != 1 {
		t.Errorf("start, peak, least and now are %d, %d, %d, %d, want 2, 8, 1, 1", story.Start, story.Peak, story.Least, story.Now)
	}
	if story.Ups != 2 || story.Downs != 2 {
		t.Errorf("%d up and %d down, want 2 and 2", story.Ups, story.Downs)
	}
	if story.Last == nil || story.Last.DesiredReplicas != 1 {
		t.Errorf("last change = %+v, want that to 1", story.Last)
	}
}

func TestStoryCountsOnlyWhatWasWritten(t *testing.T) {
	story := new(Story)
	refused := view(0, 1, 5, 2)
	refused.Status.LastScaleTime = time.Time{}
	story.Tell(refused)
	held := view(1, 1, 5, 2)
	held.Decision.Write = false
	story.Tell(held)
	if story.Peak != 1 || story.Ups != 0 || story.Last != nil {
		t.Errorf("story = %+v, want no change in it", story)
	}
}

func TestStoryMeasuresTimeOverTheGoal(t *testing.T) {
	story := new(Story)
	story.Tell(view(0, 1, 1, 1.05)) // within the tolerance
	story.Tell(view(2, 1, 1, 1.2))
	story.Tell(view(5, 1, 1, 0.5))
	unreadable := view(6, 0, 0, 1)
	unreadable.Decision.Case = policy.CaseUnreadable
	story.Tell(unreadable)
	failed := view(7, 1, 1, 9)
	failed.Decision.Metrics[0].Error = "the source does not answer"
	story.Tell(failed)
	story.Tell(view(9, 1, 1, 1.2))
	story.Tell(api.Autoscaler{})
	if story.OverGoal != 3*time.Second || story.Measured != 9*time.Second {
		t.Errorf("%v of %v over the goal, want 3s of 9s", story.OverGoal, story.Measured)
	}
	if story.Start != 1 || story.Least != 1 {
		t.Errorf("start and least are %d and %d, want 1: a fleet that cannot be read has no count", story.Start, story.Least)
	}
}
