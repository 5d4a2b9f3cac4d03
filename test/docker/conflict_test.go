package docker

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/container"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets/compose"
	"github.com/hpad/hpad/test/docker/dockertest"
	"github.com/hpad/hpad/test/internal/world"
	"github.com/hpad/hpad/test/wait"
)

// countReset: "docker compose up" puts the file's count back, which is noticed. The
// count is accepted, or put back although hpad may not scale down for the metric.
func countReset(t *testing.T, s *site) {
	for project, answer := range map[string]string{"taken": "accept", "kept": "restore"} {
		p := s.Project(t, project, "services: { web: { image: worker:1, scale: 5, stop_grace_period: 1s } }\n")
		p.Compose("up", "--detach", "--scale", "web=1")
		s.load.Queue(project, 40)
		w := world.New(t, strings.NewReplacer(
			"[autoscalers."+project+"]\n", "[autoscalers."+project+"]\non_foreign_change = \""+answer+"\"\n",
			`stabilization_window = "2s"`, `select_policy = "Disabled"`,
		).Replace(s.queued(project, 1, 6)))
		s.awaitReplicas(t, project, 4)
		w.Passes(project, 2)
		p.Compose("up", "--detach", "--no-recreate")
		if answer == "restore" {
			w.Await(project, policy.ForeignWriter, "Rescaled", "")
			s.awaitReplicas(t, project, 4)
		} else {
			w.Await(project, policy.ForeignWriter, "CountChanged", "from 4 to 5")
			s.stays(t, w, project, 5, 3)
		}
		if n := world.Told(w.View(project).Events, string(policy.ForeignWriter)); n == 0 {
			t.Errorf("%s: no event of ForeignWriter", answer)
		}
		w.Stop()
	}
}

// countPutBack: a count that "docker compose up" sets is put back also where it
// replaces the containers at the same time, and where new ones have to wait for
// another service, across a restart of hpad and another change. The metric asks for
// less, and hpad may not scale down for it.
func countPutBack(t *testing.T, s *site) {
	const file = "services:\n" +
		"  db: { image: worker:1, stop_grace_period: 1s }\n" +
		"  web: { image: worker:1, scale: 5, stop_grace_period: 1s, depends_on: [db], environment: { VERSION: %q } }\n"
	p := s.Project(t, "putback", fmt.Sprintf(file, "1"))
	p.Compose("up", "--detach")
	s.load.Queue("putback", 20)
	text := world.Restores("putback", s.queued("putback", 1, 9))
	w := world.New(t, text)
	w.Passes("putback", 2)
	up := func(more ...string) { p.Compose(append([]string{"up", "--detach"}, more...)...) }

	p.Write("compose.yaml", fmt.Sprintf(file, "2"))
	up("--scale", "web=1")
	s.awaitReplicas(t, "putback", 5)
	w.AwaitRestored("putback")

	s.CLI(t, "stop", "putback-db-1")
	down := func(n int) { // of new replicas Compose would say that they depend on nothing
		up("--no-deps", "--no-recreate", "--scale", fmt.Sprintf("web=%d", n), "web")
	}
	down(2)
	w.AwaitRestore("putback", 5, 2)
	w.Await("putback", policy.AbleToScale, compose.DependencyNotReady, "does not run")
	w.Restart(text)
	w.Await("putback", policy.AbleToScale, compose.DependencyNotReady, "does not run")
	s.stays(t, w, "putback", 2, 3)
	down(1)
	w.AwaitRestore("putback", 5, 1)
	s.CLI(t, "start", "putback-db-1")
	s.awaitReplicas(t, "putback", 5)
	w.Await("putback", policy.ForeignWriter, "Rescaled", "")
	w.AwaitRestored("putback")
}

// images returns the images of containers, by number.
func images(found []container.Summary) map[int]string {
	m := map[int]string{}
	for _, c := range found {
		m[number(c)] = c.Image
	}
	return m
}

// newVersion: a service whose file changed grows by replicas of the new
// configuration although most have the old one, which go first.
func newVersion(t *testing.T, s *site) {
	s.ImportWorker(t, "worker:2", "2")
	const file = "services: { web: { image: %q, stop_grace_period: 1s } }\n"
	p := s.Project(t, "fresh", fmt.Sprintf(file, "worker:1"))
	p.Compose("up", "--detach", "--scale", "web=2")
	p.Write("compose.yaml", fmt.Sprintf(file, "worker:2"))
	// The one beyond the two is made by the new file.
	p.Compose("up", "--detach", "--no-recreate", "--scale", "web=3")
	s.load.Queue("fresh", 40)
	world.New(t, s.queued("fresh", 1, 5))
	got := images(s.awaitReplicas(t, "fresh", 4))
	if want := map[int]string{1: "worker:1", 2: "worker:1", 3: "worker:2", 4: "worker:2"}; !maps.Equal(got, want) {
		t.Errorf("replicas have %v, want %v: the newest configuration, not the one of most", got, want)
	}
	s.load.Queue("fresh", 20)
	for number, image := range images(s.awaitReplicas(t, "fresh", 2)) {
		if image != "worker:2" {
			t.Errorf("replica %d of %s is left, want that the obsolete ones went first", number, image)
		}
	}
	p.Compose("up", "--detach", "--scale", "web=2")
	s.load.Queue("fresh", 30)
	s.awaitReplicas(t, "fresh", 3)
	s.judge(t, p, "web", 3)
}

// movedTag: a replica has the image of the others although its name means another
// one by now, or nothing.
func movedTag(t *testing.T, s *site) {
	s.ImportWorker(t, "moving:1", "before")
	p := s.Project(t, "moved", "services: { web: { image: \"moving:1\", stop_grace_period: 1s } }\n")
	p.Compose("up", "--detach")
	first := s.awaitReplicas(t, "moved", 1)[0].ImageID
	s.load.Queue("moved", 20)
	s.ImportWorker(t, "moving:1", "after")
	world.New(t, s.queued("moved", 1, 5))
	for n, c := range s.awaitReplicas(t, "moved", 2) {
		if c.ImageID != first {
			t.Errorf("replica %d has image %s, want that of the first: %s", n+1, c.ImageID, first)
		}
	}
	s.CLI(t, "rmi", "moving:1")
	s.load.Queue("moved", 30)
	if c := s.awaitReplicas(t, "moved", 3)[2]; c.ImageID != first {
		t.Errorf("without the name the new replica has image %s, want %s", c.ImageID, first)
	}
}

// refused: what only one container can have keeps a service from being scaled, and
// is said with the way out before anything was tried.
func refused(t *testing.T, s *site) {
	for _, test := range []struct{ name, service, reason, message string }{
		{"name", `web: { image: "worker:1", container_name: only }`, compose.FixedContainerName, `service "web" of project "name" has container_name "only"`},
		{"port", `web: { image: "worker:1", ports: ["18300:8080"] }`, compose.StaticHostPort, "port 18300 of the host"},
		{"address", `web: { image: "worker:1", networks: { own: { ipv4_address: 10.77.7.7 } } }`, compose.StaticIP, "the fixed address 10.77.7.7"},
		{"network", "web: { image: \"worker:1\", network_mode: \"service:other\" }\n  other: { image: \"worker:1\", environment: { WORKER_PORT: \"8081\" } }", compose.SharedNetwork, "network_mode"},
	} {
		t.Run(test.name, func(t *testing.T) {
			networks := ""
			if test.name == "address" {
				networks = "networks: { own: { ipam: { config: [{ subnet: 10.77.7.0/24 }] } } }\n"
			}
			p := s.Project(t, test.name, "services:\n  "+test.service+"\n"+networks)
			p.Compose("up", "--detach")
			s.load.Queue(test.name, 30)
			w := world.New(t, s.queued(test.name, 1, 5))
			c := w.Await(test.name, policy.AbleToScale, test.reason, test.message)
			if !strings.Contains(c.Message, "docker compose up -d web") {
				t.Errorf("message %q does not tell the way out", c.Message)
			}
			s.stays(t, w, test.name, 1, 2)
		})
	}
}

// rangeOfPorts: a range of ports of the host is a bound of the platform.
func rangeOfPorts(t *testing.T, s *site) {
	p := s.Project(t, "range", "services: { web: { image: \"worker:1\", ports: [\"18400-18402:8080\"] } }\n")
	p.Compose("up", "--detach")
	s.load.Queue("range", 50)
	w := world.New(t, s.queued("range", 1, 5))
	s.awaitReplicas(t, "range", 3)
	w.Await("range", policy.ScalingLimited, "PlatformMax", "")
	if shortage := w.View("range").Evaluation.Shortage; shortage == nil || shortage.String() != "wants 5, max 3 (PlatformMax)" {
		t.Errorf("shortage %v, want 5 wanted of 3", shortage)
	}
	var ports []int
	for _, c := range s.replicas(t, "range", "web") {
		ports = append(ports, int(c.Ports[0].PublicPort))
	}
	slices.Sort(ports)
	if !slices.Equal(ports, []int{18400, 18401, 18402}) {
		t.Errorf("ports %v, want all of the range", ports)
	}
}

// TestDisk: on a full disk nothing shrinks, what could not be made is shown and
// leaves nothing, and the service grows once there is room.
func TestDisk(t *testing.T) {
	t.Parallel()
	s := newSite(t, dockertest.Options{Disk: "96m"})
	p := s.Project(t, "full", "services: { web: { image: \"worker:1\" } }\n")
	p.Compose("up", "--detach", "--scale", "web=2")
	s.load.Queue("full", 20)
	w := world.New(t, s.queued("full", 1, 5))
	w.Await("full", policy.AbleToScale, "ReadyForNewScale", "")
	empty := s.FillDisk(t)
	s.load.Queue("full", 40)
	w.Await("full", policy.AbleToScale, compose.StartFailed, "no space left on device")
	s.stays(t, w, "full", 2, 3)
	if n := world.Told(w.View("full").Events, "SuccessfulRescale"); n != 0 {
		t.Errorf("%d events of SuccessfulRescale on a full disk", n)
	}
	empty()
	s.awaitReplicas(t, "full", 4)
}

// TestEngineDown: while the engine is down nothing is decided, and when it is back
// hpad goes on with the windows it had.
func TestEngineDown(t *testing.T) {
	t.Parallel()
	s := newSite(t, dockertest.Options{})
	p := s.Project(t, "down", "services: { web: { image: \"worker:1\", restart: unless-stopped, stop_grace_period: 1s } }\n")
	p.Compose("up", "--detach")
	s.load.Queue("down", 30)
	w := world.New(t, strings.Replace(s.queued("down", 1, 5), `"2s"`, `"10m"`, 1))
	s.awaitReplicas(t, "down", 3)
	w.Passes("down", 2)
	foreign := world.Told(w.View("down").Events, string(policy.ForeignWriter))
	s.Stop()
	s.load.Queue("down", 0)
	w.Await("down", policy.AbleToScale, "FailedGetScale", "temporary failure")
	w.Passes("down", 5)
	if message := w.Condition("down", policy.AbleToScale).Message; !strings.Contains(message, s.Host()) {
		t.Errorf("message %q does not name the engine", message)
	}
	s.StartAgain()
	w.Await("down", policy.AbleToScale, "ScaleDownStabilized", "")
	s.awaitReplicas(t, "down", 3)
	s.stays(t, w, "down", 3, 3)
	if n := world.Told(w.View("down").Events, string(policy.ForeignWriter)); n != foreign {
		t.Errorf("%d more events of ForeignWriter, want none: nobody changed the count", n-foreign)
	}
	s.load.Queue("down", 50)
	s.awaitReplicas(t, "down", 5)
	// A crash of the whole machine is no different.
	s.Kill()
	w.Await("down", policy.AbleToScale, "FailedGetScale", "temporary failure")
	s.StartAgain()
	wait.For(t, patience, "5 running replicas", func() (string, bool) {
		found := s.replicas(t, "down", "web")
		stopped := slices.ContainsFunc(found, func(c container.Summary) bool { return c.State != "running" })
		return describe(found), len(found) == 5 && !stopped
	})
}

// noImage: a service at zero whose image went away says so, and what brings it
// back.
func noImage(t *testing.T, s *site) {
	s.ImportWorker(t, "lost:1", "lost")
	p := s.Project(t, "lost", "services: { web: { image: \"lost:1\", stop_grace_period: 1s } }\n")
	p.Compose("up", "--detach")
	s.load.Queue("lost", 0)
	w := world.New(t, s.queued("lost", 0, 5))
	s.awaitReplicas(t, "lost", 0)
	s.CLI(t, "rmi", "lost:1")
	s.load.Queue("lost", 20)
	w.Await("lost", policy.AbleToScale, compose.TemplateUnusable, `image "lost:1"`)
	s.stays(t, w, "lost", 0, 2)
	s.ImportWorker(t, "lost:1", "found")
	p.Compose("up", "--detach", "web")
	s.awaitReplicas(t, "lost", 2)
}

// takenName: a number is skipped if another container, in any state, has its name.
func takenName(t *testing.T, s *site) {
	p := s.Project(t, "occupied", "services: { web: { image: \"worker:1\", stop_grace_period: 1s } }\n")
	p.Compose("up", "--detach")
	s.CLI(t, "create", "--name", "occupied-web-2", dockertest.Worker)
	s.CLI(t, "run", "--detach", "--name", "occupied-web-4", dockertest.Worker)
	s.load.Queue("occupied", 40)
	world.New(t, s.queued("occupied", 1, 5))
	var names []string
	for _, c := range s.awaitReplicas(t, "occupied", 4) {
		names = append(names, c.Names[0])
	}
	if want := []string{"/occupied-web-1", "/occupied-web-3", "/occupied-web-5", "/occupied-web-6"}; !slices.Equal(names, want) {
		t.Errorf("replicas %q, want %q", names, want)
	}
	s.CLI(t, "rm", "--force", "occupied-web-2", "occupied-web-4")
}

// renamed: a container that was renamed is a replica like any other, and its number, not
// its name, decides about the next one.
func renamed(t *testing.T, s *site) {
	for project, name := range map[string]string{"lower": "lower-web-1", "other": "anything"} {
		p := s.Project(t, project, "services: { web: { image: \"worker:1\", stop_grace_period: 1s } }\n")
		p.Compose("up", "--detach", "--scale", "web=2")
		s.CLI(t, "rm", "--force", project+"-web-1")
		s.CLI(t, "rename", project+"-web-2", name)
		s.load.Queue(project, 20)
		world.New(t, s.queued(project, 1, 5))
		found := s.awaitReplicas(t, project, 2)
		if want := "/" + project + "-web-3"; found[0].Names[0] != "/"+name || number(found[0]) != 2 || found[1].Names[0] != want || number(found[1]) != 3 {
			t.Errorf("%s, want %s with number 2, and %s", describe(found), name, want)
		}
		p.Compose("up", "--detach", "--scale", "web=2")
		for i, c := range s.replicas(t, project, "web") {
			if i >= len(found) || c.ID != found[i].ID {
				t.Errorf("docker compose up made %s anew", c.Names)
			}
		}
	}
}

// compatibility: replicas of a project with the names of the first Compose get
// such names too, and what "docker compose run" started is no replica.
func compatibility(t *testing.T, s *site) {
	p := s.Project(t, "classic", "services: { web: { image: \"worker:1\", stop_grace_period: 1s } }\n")
	p.Compose("--compatibility", "up", "--detach")
	p.Compose("--compatibility", "run", "--detach", "web")
	s.load.Queue("classic", 30)
	w := world.New(t, s.queued("classic", 1, 5))
	wait.For(t, patience, "3 replicas beside what was run", func() (string, bool) {
		found := s.replicas(t, "classic", "web")
		return describe(found), len(found) == 4 // the one that was run has no number
	})
	s.stays(t, w, "classic", 4, 2)
	before := map[string]bool{}
	for _, c := range s.replicas(t, "classic", "web") {
		before[c.ID] = true
		if n := number(c); n > 0 && c.Names[0] != fmt.Sprintf("/classic_web_%d", n) {
			t.Errorf("replica %d is called %s", n, c.Names[0])
		}
	}
	p.Compose("--compatibility", "up", "--detach", "--scale", "web=3")
	for _, c := range s.replicas(t, "classic", "web") {
		if !before[c.ID] {
			t.Errorf("docker compose up made %s anew", c.Names)
		}
	}
}
