package nomad

import (
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hpad/hpad/daemon/cluster"
	"github.com/hpad/hpad/daemon/state"
)

// TestConfigureAfterLease loses a write of a fleet's configuration until the lease is over:
// it is not sent again, though nobody else has owned the fleet.
func TestConfigureAfterLease(t *testing.T) {
	f := newFake(t)
	joined, err := f.connect(t).Join(t.Context(), cluster.Member{Name: "a"}, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	s := joined.(*session)
	held, err := s.Acquire(t.Context(), "prod", "")
	if err != nil {
		t.Fatal(err)
	}
	writes := 0
	f.meet(func(r *http.Request) fate {
		if r.Method != http.MethodPut || !strings.Contains(r.URL.Path, "prod") {
			return arrives
		}
		if writes++; writes > 1 {
			return arrives
		}
		s.Renewed(time.Now())
		return lost
	})
	if err := held.Configure(t.Context(), "4"); !errors.Is(err, state.ErrFenced) {
		t.Errorf("the error is %v, want one of a term that is over", err)
	}
	f.meet(nil)
	if view, err := s.View(t.Context()); err != nil || view.Fleets["prod"].Configuration != "" || writes != 1 {
		t.Errorf("after %d writes it is %+v, %v", writes, view.Fleets["prod"], err)
	}
	if err := s.Leave(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestSessionOfSeveral has a session used while it is renewed, for the race detector.
func TestSessionOfSeveral(t *testing.T) {
	s, err := newFake(t).connect(t).Join(t.Context(), cluster.Member{Name: "x"}, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	var both sync.WaitGroup
	both.Go(func() {
		for range 20 {
			if err := s.Update(t.Context(), cluster.Member{Name: "x", Address: "a"}); err != nil {
				t.Error(err)
			}
		}
	})
	both.Go(func() {
		for range 20 {
			owned, err := s.Acquire(t.Context(), fleet, "1")
			if err != nil {
				t.Error(err)
				return
			}
			if err := owned.Configure(t.Context(), "1"); err != nil {
				t.Error(err)
			}
			if err := owned.Release(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
	both.Wait()
}
