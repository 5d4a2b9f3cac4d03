package nomadha

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/hpad/hpad/test/internal/members"
	"github.com/hpad/hpad/test/nomad/nomadtest"
)

// start runs a cluster of members over servers of Nomad, each over one of its own.
func start(t *testing.T, name string, servers *nomadtest.Cluster, count int) *members.Cluster {
	t.Helper()
	c := members.New(t, over(t, servers, name, nil))
	c.Start(count)
	return c
}

// TestMembers has members share fleets over three servers of Nomad, each case in a
// cluster of its own.
func TestMembers(t *testing.T) {
	t.Parallel()
	servers := nomadtest.StartServers(t, 3, nomadtest.Options{})
	for name, test := range map[string]func(*testing.T, *nomadtest.Cluster){
		"killed": killed, "stopped": stopped, "stands-still": standsStill,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, servers)
		})
	}
}

// killed has an owner end without a word: another member goes on once its lease is over,
// with what was remembered.
func killed(t *testing.T, servers *nomadtest.Cluster) {
	c := start(t, "killed", servers, 3)
	c.Spread()
	owner, other := c.OwnerOf("alpha")
	c.Follows("alpha", 0, 7)
	c.Paused(other, "alpha-1")
	remembered := c.Evaluated(other, "alpha-0")
	owner.Kill()
	began := time.Now()
	c.TakenOver("alpha", owner, other)
	if took := time.Since(began); took < members.TTL/2 || took > members.TTL+8*time.Second {
		t.Errorf("taken over after %s", took)
	}
	after := c.Evaluated(other, "alpha-0")
	if !after.Created.Equal(remembered.Created) || !after.Status.LastScaleTime.Equal(remembered.Status.LastScaleTime) {
		t.Errorf("what was remembered is not: created %s and scaled %s, before %s and %s",
			after.Created, after.Status.LastScaleTime, remembered.Created, remembered.Status.LastScaleTime)
	}
	if paused := c.Evaluated(other, "alpha-1"); len(paused.Pauses) != 1 {
		t.Errorf("the next owner has the pauses %+v", paused.Pauses)
	}
	c.Worlds["alpha"].Ask(0, 2) // which the window of before holds
	if held := c.Evaluated(other, "alpha-0"); held.Status.DesiredReplicas < 7 || c.Worlds["alpha"].Truth(0).Count < 7 {
		t.Errorf("the window is forgotten: %+v", held.Status)
	}
}

// stopped has an owner be stopped as planned: another one goes on at once.
func stopped(t *testing.T, servers *nomadtest.Cluster) {
	c := start(t, "stopped", servers, 2)
	c.Spread()
	owner, other := c.OwnerOf("beta")
	owner.Stop()
	began := time.Now()
	c.TakenOver("beta", owner, other)
	if took := time.Since(began); took > members.TTL {
		t.Errorf("a planned stop is taken over after %s, want sooner than a lease of %s", took, members.TTL)
	}
	c.Evaluated(other, "beta-0")
	c.Follows("beta", 0, 19)
}

// standsStill has an owner stand still for longer than its lease. When it comes back it
// does nothing that the next owner was told not to do, and is a member again.
func standsStill(t *testing.T, servers *nomadtest.Cluster) {
	c := start(t, "stands-still", servers, 2)
	c.Spread()
	c.Follows("alpha", 1, 5)
	owner, other := c.OwnerOf("alpha")
	owner.Signal(syscall.SIGSTOP)
	c.TakenOver("alpha", owner, other)
	c.Evaluated(other, "alpha-1")
	c.Paused(other, "alpha-1")
	c.Worlds["alpha"].Ask(1, 9) // which the owner of before knows of no reason to refuse
	c.Follows("alpha", 0, 5)
	owner.Signal(syscall.SIGCONT)
	for end := time.Now().Add(2 * members.TTL); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if got := c.Worlds["alpha"].Truth(1).Count; got != 5 {
			t.Fatalf("%d replicas of what is paused, want 5", got)
		}
	}
	c.Await("the member again", func() (string, bool) {
		found, err := owner.Client.Cluster(t.Context())
		return fmt.Sprint(err), err == nil && len(found.Members) == 2
	})
}
