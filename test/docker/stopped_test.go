package docker

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/container"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets/compose"
	"github.com/hpad/hpad/test/internal/world"
	"github.com/hpad/hpad/test/wait"
)

// halted checks that hpad does not change manually stopped services, regardless of their exit
// status and load and even after a restart of hpad, until one of their containers runs again.
func halted(t *testing.T, s *site) {
	services := []string{"plain", "always", "sulky", "struck"}
	p := s.Project(t, "halted", `
services:
  plain:  { image: worker:1 }
  always: { image: worker:1, restart: always, environment: { WORKER_STOP_CODE: "3" } }
  sulky:  { image: worker:1, environment: { WORKER_STOP_CODE: "1" } }
  struck: { image: worker:1, restart: on-failure }
`)
	tables := []string{s.fleet("compose", "[fleets.shop.services.\"halted/struck\"]\nrespect_stopped = true\n"), s.load.Source()}
	up := []string{"up", "--detach"}
	queue := func(n float64) {
		for _, name := range services {
			s.load.Queue(name, n)
		}
	}
	for _, name := range services {
		up = append(up, "--scale", name+"=2")
		tables = append(tables, world.Queued(name, fmt.Sprintf(`{ fleet = "shop", project = "halted", service = %q }`, name), 1, 3))
	}
	text := strings.Join(tables, "")
	p.Compose(up...)
	queue(20)
	w := world.New(t, text)
	p.Compose("stop", "plain", "always", "sulky")
	p.Compose("kill", "struck")
	queue(60)
	stay := func() {
		t.Helper()
		for _, name := range services {
			w.Await(name, policy.AbleToScale, compose.ServiceStopped, "docker compose start "+name)
		}
		w.Passes("plain", 2)
		for _, name := range services {
			found := s.replicas(t, "halted", name)
			runs := slices.ContainsFunc(found, func(c container.Summary) bool { return c.State == "running" })
			if len(found) != 2 || runs {
				t.Errorf("stopped service %s: %s, want 2 stopped containers", name, describe(found))
			}
		}
	}
	stay()
	w.Restart(text)
	stay()
	queue(0)             // if containers were removed, none would be left to start
	w.Passes("plain", 3) // longer than the window
	stay()

	queue(60)
	w.Stop()
	p.Compose("start", "sulky")
	p.Compose("start", "plain")
	p.Compose("stop", "plain") // while hpad is not running
	w.Restart(text)
	w.Await("plain", policy.AbleToScale, compose.ServiceStopped, "")
	p.Compose("start")
	for _, name := range services {
		wait.For(t, patience, "3 replicas of "+name, func() (string, bool) {
			found := s.replicas(t, "halted", name)
			stopped := slices.ContainsFunc(found, func(c container.Summary) bool { return c.State != "running" })
			return describe(found), len(found) == 3 && !stopped
		})
	}
	w.Await("always", policy.AbleToScale, "ReadyForNewScale", "")

	w.Restart(strings.Replace(text, "respect_stopped = true", "respect_stopped = false", 1))
	s.load.Queue("struck", 10)
	wait.For(t, patience, "1 replica of struck", func() (string, bool) {
		found := s.replicas(t, "halted", "struck")
		return describe(found), len(found) == 1
	})
	p.Compose("stop", "struck")
	s.load.Queue("struck", 20)
	wait.For(t, patience, "another replica of struck", func() (string, bool) {
		found := s.replicas(t, "halted", "struck")
		return describe(found), len(found) == 2 && found[1].State == "running"
	})
}
