package main

import (
	"fmt"
	"testing"
	"time"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/test/internal/program"
	"github.com/hpad/hpad/test/internal/world"
	"github.com/hpad/hpad/test/scale/sim"
	"github.com/hpad/hpad/test/soak"
	"github.com/hpad/hpad/test/wait"
)

// TestFollow runs hpad with 200 jobs whose loads change, with one shared query, one shared document,
// and one query per job. Every count must follow its load.
func TestFollow(t *testing.T) {
	for _, query := range []string{"shared", "document", "each"} {
		t.Run(query, func(t *testing.T) {
			if query == "each" {
				soak.Complete(t)
			}
			r := row{n: 200, period: time.Second, changes: 20, each: query == "each", document: query == "document"}
			s, err := startEnvironment(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(s.end)
			p := program.New(t, s.autoscalers(r, "prod", ""))
			const least = 100
			reactions := 0
			wait.For(t, world.Patience, fmt.Sprintf("%d changed counts", least), func() (string, bool) {
				more, _, waiting := s.Reactions()
				reactions += len(more)
				return fmt.Sprintf("%d changed, %d wait", reactions, waiting), reactions >= least
			})
			s.Calm()
			wait.For(t, world.Patience, "agreement", func() (string, bool) { return disagreement(t, p, s) })
		})
	}
}

// disagreement describes the differences between hpad's view and the simulated cluster. It returns
// true without differences.
func disagreement(t *testing.T, p *program.Program, s *environment) (string, bool) {
	t.Helper()
	views, err := p.Client.Autoscalers(t.Context())
	if err != nil || len(views) != 200 {
		return fmt.Sprintf("%d autoscalers, %v", len(views), err), false
	}
	for number, view := range views {
		if view.Evaluation.Unevaluated || view.Evaluation.Error != "" {
			return fmt.Sprintf("%s: %+v", view.Name, view.Evaluation), false
		}
		truth := s.Truth(number)
		state := fmt.Sprintf("%s: %d of %d replicas, %+v; want %+v", view.Name, view.Status.CurrentReplicas, view.Status.DesiredReplicas, view.Instances, truth)
		settled := sim.Truth{Wanted: truth.Wanted, Count: truth.Wanted, Healthy: truth.Wanted}
		agreed := api.Instances{Ready: int32(truth.Wanted)}
		if view.Name != sim.JobID(number) || truth != settled || view.Instances != agreed ||
			int(view.Status.CurrentReplicas) != truth.Count || int(view.Status.DesiredReplicas) != truth.Count {
			return state, false
		}
	}
	return "", true
}
