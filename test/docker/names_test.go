package docker

import (
	"strings"
	"testing"

	"github.com/hpad/hpad/test/wait"
)

// renamed checks that replicas are identified by their labels. A renamed replica and an unrelated
// container that has the next replica's name must have no effect.
func renamed(t *testing.T, s *site) {
	p := s.Project(t, "named", "services: { web: { image: \"worker:1\", stop_grace_period: 1s } }\n")
	p.Compose("up", "--detach", "--scale", "web=2")
	s.CLI(t, "rm", "--force", "named-web-1")
	s.CLI(t, "rename", "named-web-2", "named-web-1")
	s.CLI(t, "create", "--name", "named-web-3", "worker:1")
	b := s.hookedFleet(t, p)
	got := b.read(t)
	if got.Err != nil || got.SpecReplicas != 1 {
		t.Fatalf("replicas = %d, %v, want 1", got.SpecReplicas, got.Err)
	}
	if err := b.SetReplicas(t.Context(), b.ref, 4, got.Version, "test"); err != nil {
		t.Fatal(err)
	}
	s.awaitReplicas(t, "named", 4)
}

// unreadyFirst checks that an unhealthy replica is removed before a healthy one even if it is
// older.
func unreadyFirst(t *testing.T, s *site) {
	p := s.Project(t, "unready", `
services:
  web:
    image: worker:1
    stop_grace_period: 1s
    healthcheck: { test: [CMD, /worker, check], interval: 1s, timeout: 10s, retries: 1 }
`)
	p.Compose("up", "--detach", "--wait", "--scale", "web=2")
	b := s.hookedFleet(t, p)
	all := s.replicas(t, "unready", "web")
	s.post(t, all[0], "set?health=bad")
	wait.For(t, patience, "an unhealthy replica", func() (string, bool) {
		found := s.replicas(t, "unready", "web")
		return describe(found), strings.Contains(found[0].Status, "(unhealthy)")
	})
	if err := b.SetReplicas(t.Context(), b.ref, 1, b.read(t).Version, "test"); err != nil {
		t.Fatal(err)
	}
	if left := s.awaitReplicas(t, "unready", 1); left[0].ID != all[1].ID {
		t.Errorf("remaining: %s, want only the healthy %s", describe(left), all[1].Names)
	}
}
