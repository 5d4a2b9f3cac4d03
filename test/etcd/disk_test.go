package etcd

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hpad/hpad/test/etcd/etcdtest"
	"github.com/hpad/hpad/test/internal/installed"
	"github.com/hpad/hpad/test/internal/members"
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
		found, err := last.Client.Cluster(t.Context())
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
