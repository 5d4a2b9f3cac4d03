package etcd

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/test/etcd/etcdtest"
	"github.com/hpad/hpad/test/internal/members"
)

// parts returns who owns each part of fleets that is owned, as a member says.
func parts(t *testing.T, m *members.Member) map[string]string {
	owners := map[string]string{}
	if found, err := m.Client.Cluster(t.Context()); err == nil {
		for _, fleet := range found.Fleets {
			if fleet.Owner != "" && fleet.Part != "" {
				owners[fleet.Name+" "+fleet.Part] = fleet.Owner
			}
		}
	}
	return owners
}

// TestDivided has members share the parts of fleets, pauses all parts of one at once, and
// has a member end whose parts others take over.
func TestDivided(t *testing.T) {
	t.Parallel()
	s := open(t, etcdtest.Start(t, 1), members.Options{HA: "shard_size = 2\n"})
	s.Start(3)
	s.Await("two parts for each member", func() (string, bool) {
		owners, count := parts(t, s.Members[0]), map[string]int{}
		for _, owner := range owners {
			count[owner]++
		}
		return fmt.Sprint(owners), len(owners) == 6 && count["hpad-0"] == 2 && count["hpad-1"] == 2 && count["hpad-2"] == 2
	})
	for _, m := range s.Members {
		s.Await("all autoscalers at "+m.Name, func() (string, bool) {
			views, err := m.Client.Autoscalers(t.Context())
			return fmt.Sprintf("%d, %v", len(views), err), len(views) == len(members.Fleets)*members.Jobs
		})
	}
	followed := func(to int, jobs ...int) {
		t.Helper()
		for _, job := range jobs { // all at once, since a policy has each wait
			s.Worlds["alpha"].Ask(job, to)
		}
		for _, job := range jobs {
			s.Follows("alpha", job, to)
		}
	}
	followed(7, 0, 1)
	counts := [members.Jobs]int32{}
	for job := range members.Jobs {
		counts[job] = int32(s.Worlds["alpha"].Truth(job).Count)
	}
	pause := policy.Scope{Fleet: "alpha"}
	if _, err := s.Members[0].Client.Pause(t.Context(), pause, api.PauseRequest{Reason: "moving house", Direction: policy.Up}); err != nil {
		t.Fatal(err)
	}
	held := func(m *members.Member) {
		t.Helper()
		for job := range members.Jobs {
			view := s.Evaluated(m, fmt.Sprint("alpha-", job))
			if len(view.Pauses) != 1 || view.Pauses[0].Reason != "moving house" || view.Status.DesiredReplicas != counts[job] {
				t.Errorf("alpha-%d has the pauses %+v and wants %d", job, view.Pauses, view.Status.DesiredReplicas)
			}
		}
	}
	held(s.Members[1])
	before := map[string]time.Time{}
	for job := range members.Jobs {
		name := fmt.Sprint("alpha-", job)
		before[name] = s.Evaluated(s.Members[0], name).Status.LastScaleTime
	}
	s.Members[2].Kill()
	s.Await("other owners", func() (string, bool) {
		owners := parts(t, s.Members[0])
		for _, owner := range owners {
			if owner == "hpad-2" {
				return fmt.Sprint(owners), false
			}
		}
		return fmt.Sprint(owners), len(owners) == 6
	})
	for job := range members.Jobs {
		s.Worlds["alpha"].Ask(job, 2) // which the windows hold
	}
	held(s.Members[0])
	for name, scaled := range before {
		if got := s.Evaluated(s.Members[1], name).Status.LastScaleTime; !got.Equal(scaled) {
			t.Errorf("%s was scaled at %s, before %s", name, got, scaled)
		}
	}
	if _, err := s.Members[0].Client.Resume(t.Context(), pause); err != nil {
		t.Fatal(err)
	}
	followed(20, 0, 1, 2, 3)
}

// TestStateMoves moves a single hpad into a cluster whose fleets are divided, and back.
func TestStateMoves(t *testing.T) {
	t.Parallel()
	s := open(t, etcdtest.Start(t, 1), members.Options{HA: "shard_size = 2\n"})
	single := s.Alone()
	single.Start()
	s.Follows("alpha", 0, 7)
	s.Paused(single, "alpha-1")
	remembered := s.Evaluated(single, "alpha-0")
	moved := func(to *members.Member) {
		t.Helper()
		after := s.Evaluated(to, "alpha-0")
		if !after.Created.Equal(remembered.Created) || !after.Status.LastScaleTime.Equal(remembered.Status.LastScaleTime) {
			t.Errorf("created %s and scaled %s, before %s and %s", after.Created, after.Status.LastScaleTime, remembered.Created, remembered.Status.LastScaleTime)
		}
		if paused := s.Evaluated(to, "alpha-1"); len(paused.Pauses) != 1 || paused.Pauses[0].Reason != "moving house" {
			t.Errorf("the pauses are %+v", paused.Pauses)
		}
		s.Worlds["alpha"].Ask(0, 2) // which the window holds
		if held := s.Evaluated(to, "alpha-0"); held.Status.DesiredReplicas != 7 {
			t.Errorf("the window is forgotten: %+v", held.Status)
		}
		entries, err := to.Client.History(t.Context(), "alpha-0", time.Time{}, time.Time{}, 0)
		scaled := func(e api.Recorded) bool { return e.Written != nil && *e.Written == 7 }
		if err != nil || !slices.ContainsFunc(entries, scaled) {
			t.Errorf("the history is %+v, %v", entries, err)
		}
	}
	single.Stop()
	file := filepath.Join(t.TempDir(), "single.jsonl")
	single.Says("state", "export", "--config", single.File(), "--file", file)

	s.Add(2)
	here, there := s.Members[0], s.Members[1]
	here.Says("state", "import", "--config", here.File(), file)
	here.Launch()
	there.Launch()
	s.Await("an owner of each part", func() (string, bool) {
		owners, busy := parts(t, here), map[string]bool{}
		for _, owner := range owners {
			busy[owner] = true
		}
		return fmt.Sprint(owners), len(owners) == 2*len(members.Fleets) && len(busy) == 2
	})
	moved(here)
	for _, m := range s.Members {
		if text := m.Says("state", "export", "--no-history"); strings.Count(text, `"bucket":["autoscalers"]`) != len(members.Fleets)*members.Jobs {
			t.Errorf("the export of %s has other autoscalers:\n%.2000s", m.Name, text)
		}
	}
	for _, m := range s.Members {
		m.Stop()
	}
	file = filepath.Join(t.TempDir(), "cluster.jsonl")
	here.Says("state", "export", "--config", here.File(), "--file", file)

	again := s.Alone()
	again.Says("state", "import", "--config", again.File(), file)
	again.Start()
	moved(again)
}
