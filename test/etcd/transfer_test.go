package etcd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/test/etcd/etcdtest"
	"github.com/hpad/hpad/test/internal/members"
	"github.com/hpad/hpad/test/internal/program"
)

// TestStateTransfer moves the state of a single hpad into a cluster and back.
func TestStateTransfer(t *testing.T) {
	t.Parallel()
	s := members.New(t, viewed(t, etcdtest.Start(t, 1), "hpad"))
	single := s.Alone()
	single.Start()
	s.Follows("alpha", 0, 7)
	s.Paused(single, "alpha-1")
	remembered := s.Evaluated(single, "alpha-0")
	moved := func(to *members.Member) {
		t.Helper()
		after := s.Evaluated(to, "alpha-0")
		if !after.Created.Equal(remembered.Created) || !after.Status.LastScaleTime.Equal(remembered.Status.LastScaleTime) {
			t.Errorf("creation and last scale time = %s and %s, want %s and %s", after.Created, after.Status.LastScaleTime, remembered.Created, remembered.Status.LastScaleTime)
		}
		if paused := s.Evaluated(to, "alpha-1"); len(paused.Pauses) != 1 || paused.Pauses[0].Reason != "moving house" {
			t.Errorf("pauses = %+v", paused.Pauses)
		}
		s.Worlds["alpha"].Ask(0, 2) // the window must prevent this
		if held := s.Evaluated(to, "alpha-0"); held.Status.DesiredReplicas != 7 {
			t.Errorf("the stabilization window was lost: %+v", held.Status)
		}
		entries, err := to.Client.History(t.Context(), "alpha-0", time.Time{}, time.Time{}, 0)
		scaled := func(e api.Recorded) bool { return e.Written != nil && *e.Written == 7 }
		if err != nil || !slices.ContainsFunc(entries, scaled) {
			t.Errorf("history = %+v, %v", entries, err)
		}
	}
	single.Stop()
	file := filepath.Join(t.TempDir(), "single.jsonl")
	single.Says("state", "export", "--config", single.File(), "--file", file)

	s.Add(2)
	here, there := s.Members[0], s.Members[1]
	killedImports(t, s, here, there, file)
	here.Launch()
	there.Launch()
	s.Await("an owner of each fleet", func() (string, bool) {
		found, err := here.Client.Cluster(t.Context())
		owned, busy := 0, map[string]bool{}
		for _, fleet := range found.Fleets {
			if fleet.Owner != "" {
				owned++
				busy[fleet.Owner] = true
			}
		}
		return fmt.Sprint(found.Fleets, err), owned == len(members.Fleets) && len(busy) == 2
	})
	moved(here)
	for _, m := range s.Members {
		if text := m.Says("state", "export", "--no-history"); strings.Count(text, `"bucket":["autoscalers"]`) != len(members.Fleets)*members.Jobs {
			t.Errorf("the export of %s contains different autoscalers:\n%.2000s", m.Name, text)
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

// killedImports kills "hpad state import" after increasing times, until an import succeeds. After
// the first import that was killed while it wrote, another member must not own a fleet.
func killedImports(t *testing.T, s *members.Cluster, here, there *members.Member, file string) {
	t.Helper()
	checked := false
	killedState := here.State() + ".killed"
	for after := 20 * time.Millisecond; ; after += after / 4 {
		// The killed import may have created files, or may have been complete.
		if err := errors.Join(os.RemoveAll(killedState), os.MkdirAll(here.State(), 0o700), os.Rename(here.State(), killedState)); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), after)
		said, err := exec.CommandContext(ctx, program.Binary(t), "state", "import", "--config", here.File(), file).CombinedOutput()
		killed := ctx.Err() != nil
		cancel()
		complete := strings.Contains(string(said), "has state in the cluster store")
		if complete {
			err = errors.Join(os.RemoveAll(here.State()), os.Rename(killedState, here.State()))
		}
		switch {
		case err == nil:
			if !checked {
				t.Error("no import was killed during its writes")
			}
			return
		case !killed && !strings.Contains(string(said), "members of the cluster are running (hpad-state-import)"):
			t.Fatalf("the import ended with %v: %s", err, said)
		case !killed:
			time.Sleep(time.Second) // until the lease of the killed import ends
		}
		view, err := s.View(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if !checked && view.Fleets[".import"].Configuration != "" {
			checked = true
			there.Launch()
			s.Await("the incomplete import", func() (string, bool) {
				found, err := there.Client.Cluster(t.Context())
				return fmt.Sprint(found, err), strings.Contains(found.Problem, "incomplete import")
			})
			time.Sleep(2 * members.TTL)
			owners := s.Owners(there)
			maps.DeleteFunc(owners, func(_, owner string) bool { return owner == "hpad-state-import" }) // its lease may still last
			if len(owners) > 0 {
				t.Errorf("owners after a killed import = %v, want none", owners)
			}
			there.Stop()
		}
	}
}
