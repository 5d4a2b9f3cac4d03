package etcd

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/test/etcd/etcdtest"
	"github.com/hpad/hpad/test/internal/members"
	"github.com/hpad/hpad/test/soak"
)

// TestCommandsDuringHandover sends commands to a member without interruption while the owner stops
// and starts again. Every command must succeed, or report that its outcome is unknown.
func TestCommandsDuringHandover(t *testing.T) {
	t.Parallel()
	s := open(t, etcdtest.Start(t, 1), members.Options{})
	s.Start(3)
	s.Spread()
	here := s.Members[0]
	for n := range soak.Rounds(3, 60) {
		fleet := members.Fleets[n%len(members.Fleets)]
		owner, _ := s.OwnerOf(fleet)
		if owner == here {
			continue
		}
		moved := make(chan struct{})
		var commands sync.WaitGroup
		for job, command := range []func(name string) error{
			func(name string) error {
				_, err := api.Post[policy.Pause](t.Context(), here.Client, api.PathOf(policy.Scope{Autoscaler: name}, "pause"), api.PauseRequest{Reason: fmt.Sprint("round ", n)})
				return err
			},
			func(name string) error {
				_, err := api.Post[api.Autoscaler](t.Context(), here.Client, api.Path("autoscalers", name, "scale"), api.ScaleRequest{Replicas: new(int32(5 + n))})
				return err
			},
			func(name string) error {
				_, err := api.Post[api.Autoscaler](t.Context(), here.Client, api.Path("autoscalers", name, "evaluate"), nil)
				return err
			},
			func(name string) error {
				_, err := api.Post[policy.Pause](t.Context(), here.Client, api.PathOf(policy.Scope{Autoscaler: name}, "pause"), api.PauseRequest{})
				if err == nil {
					_, err = api.Post[policy.Pause](t.Context(), here.Client, api.PathOf(policy.Scope{Autoscaler: name}, "resume"), nil)
				}
				return err
			},
		} {
			commands.Go(func() {
				name := fmt.Sprint(fleet, "-", job)
				for last := false; !last; {
					select {
					case <-moved:
						last = true // once more, with the new owner
					default:
					}
					err := command(name)
					held := err != nil && strings.Contains(err.Error(), "the target is held") // by a deployment
					if err != nil && !held && !errors.Is(err, api.ErrUnknownOutcome) {
						t.Errorf("round %d: command for %s: %v", n, name, err)
					}
				}
			})
		}
		owner.Stop()
		s.Await("another owner", func() (string, bool) {
			now := s.Owners(here)[fleet]
			return now, now != "" && now != owner.Name
		})
		close(moved)
		commands.Wait()
		owner.Launch()
		s.Spread()
	}
}
