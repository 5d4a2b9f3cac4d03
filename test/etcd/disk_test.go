package etcd

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/test/etcd/etcdtest"
	"github.com/hpad/hpad/test/internal/installed"
	"github.com/hpad/hpad/test/internal/members"
	"github.com/hpad/hpad/test/soak"
)

// TestFullDisk fills the disk of a member and kills the other member. The remaining member must
// report the disk error, and take over when the disk has space again.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	s := open(t, etcdtest.Start(t, 1), members.Options{})
	s.Add(2)
	owner, last := s.Members[0], s.Members[1]
	const size = 16
	installed.Mount(t, last.State(), fmt.Sprintf("size=%dm,mode=0700", size))
	t.Cleanup(func() { _ = unix.Unmount(last.State(), unix.MNT_DETACH) })
	owner.Launch()
	awaitOwner(s, owner)
	last.Launch()
	s.Spread()

	ballast := filepath.Join(last.State(), "ballast")
	if err := os.WriteFile(ballast, make([]byte, size<<20), 0o600); !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("fill the disk: got %v, want ENOSPC", err)
	}
	owner.Kill()
	s.Await("the disk error", func() (string, bool) {
		found, err := api.Get[api.Cluster](t.Context(), last.Client, api.Path("cluster"), nil)
		views, listErr := last.Client.Autoscalers(t.Context())
		right := err == nil && listErr == nil && strings.Contains(found.Problem, unix.ENOSPC.Error()) && !strings.Contains(found.Problem, "adopt")
		owners, text := s.Owners(last), found.Problem
		for _, view := range views {
			fleet, _, _ := strings.Cut(view.Name, "-")
			text += fmt.Sprintf("; %s: %s", view.Name, view.Evaluation.Error)
			right = right && (owners[fleet] != "" || strings.Contains(view.Evaluation.Error, unix.ENOSPC.Error()))
		}
		return text, right && len(views) == len(members.Fleets)*members.Jobs && len(owners) < len(members.Fleets)
	})
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	awaitOwner(s, last)
	s.Follows("alpha", 0, 6)
}

// TestOwnerWithFullDisk fills the disk of one of three members. The member must hand its fleets over,
// and must not take them again after it was killed and restarted. All members must report the cause.
// In make soak, the member gets its share when the disk has space again.
func TestOwnerWithFullDisk(t *testing.T) {
	t.Parallel()
	s := open(t, etcdtest.Start(t, 1), members.Options{})
	s.Add(3)
	sick := s.Members[0]
	const size = 16
	installed.Mount(t, sick.State(), fmt.Sprintf("size=%dm,mode=0700", size))
	t.Cleanup(func() { _ = unix.Unmount(sick.State(), unix.MNT_DETACH) })
	for _, m := range s.Members {
		m.Launch()
	}
	s.Spread()

	ballast := filepath.Join(sick.State(), "ballast")
	if err := os.WriteFile(ballast, make([]byte, size<<20), 0o600); !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("fill the disk: got %v, want ENOSPC", err)
	}
	others := func() {
		t.Helper()
		s.Await("other owners, and the cause on all members", func() (string, bool) {
			for _, m := range s.Members {
				found, err := api.Get[api.Cluster](t.Context(), m.Client, api.Path("cluster"), nil)
				if err != nil || len(found.Members) != 3 || !strings.Contains(found.Members[0].Problem, unix.ENOSPC.Error()) {
					return fmt.Sprintf("%s has %+v, %v", m.Name, found.Members, err), false
				}
				health, err := m.Client.Health(t.Context())
				if err != nil || !health.Healthy || len(health.Cluster) != 1 || !strings.Contains(health.Cluster[0].Message, unix.ENOSPC.Error()) {
					return fmt.Sprintf("%s has %+v, %v", m.Name, health, err), false
				}
				for _, fleet := range found.Fleets {
					if fleet.Owner == "" || fleet.Owner == sick.Name {
						return fmt.Sprintf("%s has %+v", m.Name, fleet), false
					}
				}
			}
			return "", true
		})
	}
	others()
	terms := func() (terms []uint64) {
		found, err := api.Get[api.Cluster](t.Context(), s.Members[1].Client, api.Path("cluster"), nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, fleet := range found.Fleets {
			terms = append(terms, fleet.Term)
		}
		return terms
	}
	before := terms()
	sick.Kill()
	sick.Launch()
	others()
	s.Follows("alpha", 0, 4) // two changes of the count take several rounds
	s.Follows("alpha", 0, 7)
	if after := terms(); !slices.Equal(after, before) {
		t.Errorf("terms = %v after the restart, want %v as before", after, before)
	}
	if !soak.Rounds(false, true) {
		return // the member takes fleets after a minute, which TestProbe of daemon/cluster checks with a virtual clock
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	s.Spread()
}
