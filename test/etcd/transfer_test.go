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

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/test/etcd/etcdtest"
	"github.com/hpad/hpad/test/internal/members"
	"github.com/hpad/hpad/test/internal/program"
)

// TestStateTransfer moves the state of a single hpad into a cluster and back.
func TestStateTransfer(t *testing.T) {
	t.Parallel()
	store := etcdtest.Start(t, 1)
	s := members.New(t, viewed(t, store, "hpad"))
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
		entries, err := to.Client.History(t.Context(), "alpha-0", api.HistoryQuery{})
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
	killedImports(t, s, store, here, there, file)
	here.Launch()
	there.Launch()
	s.Await("an owner of each fleet", func() (string, bool) {
		found, err := api.Get[api.Cluster](t.Context(), here.Client, api.Path("cluster"), nil)
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

// killedImports kills "hpad state import" while it writes. It checks that no member owns a fleet
// then, and repeats the import.
func killedImports(t *testing.T, s *members.Cluster, store *etcdtest.Cluster, here, there *members.Member, file string) {
	t.Helper()
	for tries := 0; !killImport(t, s, store, here, file); tries++ {
		if tries == 50 {
			t.Fatal("no import was killed during its writes")
		}
	}
	there.Launch()
	s.Await("the incomplete import", func() (string, bool) {
		found, err := api.Get[api.Cluster](t.Context(), there.Client, api.Path("cluster"), nil)
		return fmt.Sprint(found, err), strings.Contains(found.Problem, "incomplete import")
	})
	time.Sleep(2 * members.TTL)
	owners := s.Owners(there)
	maps.DeleteFunc(owners, func(_, owner string) bool { return owner == "hpad-state-import" }) // its lease may still last
	if len(owners) > 0 {
		t.Errorf("owners after a killed import = %v, want none", owners)
	}
	there.Stop()
	s.Await("an import", func() (string, bool) {
		if err := os.RemoveAll(here.State()); err != nil { // the killed import may have created files
			t.Fatal(err)
		}
		said, err := importCommand(t, here, file).CombinedOutput()
		if err != nil && !strings.Contains(string(said), "members of the cluster are running (hpad-state-import)") {
			t.Fatalf("the import ended with %v: %s", err, said)
		}
		return string(said), err == nil
	})
}

// killImport starts an import and kills it after its first write to the store. It returns false,
// and clears the store, if the import was complete by then.
func killImport(t *testing.T, s *members.Cluster, store *etcdtest.Cluster, here *members.Member, file string) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	client := store.Client(0)
	changes := client.Watch(ctx, "/hpad/hpad/fleets/.import")
	cmd := importCommand(t, here, file)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	<-changes
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	view, err := s.View(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if view.Fleets[".import"].Configuration != "" {
		return true
	}
	_, err = client.Delete(ctx, "/hpad/", clientv3.WithPrefix())
	if err = errors.Join(err, os.RemoveAll(here.State())); err != nil {
		t.Fatal(err)
	}
	return false
}

func importCommand(t *testing.T, m *members.Member, file string) *exec.Cmd {
	return exec.CommandContext(t.Context(), program.Binary(t), "state", "import", "--config", m.File(), file)
}
