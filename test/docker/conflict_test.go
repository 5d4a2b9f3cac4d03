package docker

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets/compose"
	"github.com/hpad/hpad/test/docker/dockertest"
	"github.com/hpad/hpad/test/internal/world"
	"github.com/hpad/hpad/test/wait"
)

// countReset checks that hpad accepts or restores a count that "docker compose up" has reset, even
// if scale-down is disabled.
func countReset(t *testing.T, s *site) {
	for project, mode := range map[string]string{"taken": "accept", "kept": "restore"} {
		p := s.Project(t, project, "services: { web: { image: worker:1, scale: 5, stop_grace_period: 1s } }\n")
		p.Compose("up", "--detach", "--scale", "web=1")
		s.load.Queue(project, 40)
		w := world.New(t, strings.NewReplacer(
			"[autoscalers."+project+"]\n", "[autoscalers."+project+"]\non_foreign_change = \""+mode+"\"\n",
			`stabilization_window = "2s"`, `select_policy = "Disabled"`,
		).Replace(s.queued(project, 1, 6)))
		s.awaitReplicas(t, project, 4)
		w.Passes(project, 2)
		p.Compose("up", "--detach", "--no-recreate")
		if mode == "restore" {
			w.Await(project, policy.ForeignWriter, "Rescaled", "")
			s.awaitReplicas(t, project, 4)
		} else {
			w.Await(project, policy.ForeignWriter, "CountChanged", "from 4 to 5")
			s.stays(t, w, project, 5, 3)
		}
		if n := world.Told(w.View(project).Events, string(policy.ForeignWriter)); n == 0 {
			t.Errorf("%s: no event of ForeignWriter", mode)
		}
		w.Stop()
	}
}

// movedTag checks that a new replica uses the image of the existing replicas, even if the tag was
// moved or removed.
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
			t.Errorf("replica %d has image %s, want %s as the first replica", n+1, c.ImageID, first)
		}
	}
	s.CLI(t, "rmi", "moving:1")
	s.load.Queue("moved", 30)
	if c := s.awaitReplicas(t, "moved", 3)[2]; c.ImageID != first {
		t.Errorf("without the tag the new replica has image %s, want %s", c.ImageID, first)
	}
}

// rangeOfPorts checks that the size of a host port range limits the number of replicas.
func rangeOfPorts(t *testing.T, s *site) {
	p := s.Project(t, "range", "services: { web: { image: \"worker:1\", ports: [\"18400-18402:8080\"] } }\n")
	p.Compose("up", "--detach")
	s.load.Queue("range", 50)
	w := world.New(t, s.queued("range", 1, 5))
	s.awaitReplicas(t, "range", 3)
	w.Await("range", policy.ScalingLimited, "PlatformMax", "")
	wait.For(t, patience, "shortage of 5 wanted, max 3", func() (string, bool) {
		shortage := w.View("range").Evaluation.Shortage
		return fmt.Sprint(shortage), shortage != nil && shortage.String() == "wants 5, max 3 (PlatformMax)"
	})
	var ports []int
	for _, c := range s.replicas(t, "range", "web") {
		ports = append(ports, int(c.Ports[0].PublicPort))
	}
	slices.Sort(ports)
	if !slices.Equal(ports, []int{18400, 18401, 18402}) {
		t.Errorf("got ports %v, want 18400 to 18402", ports)
	}
}

// TestDisk checks that hpad reports a failed start and removes no replica while the disk is full,
// and that it scales up once there is space.
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
		t.Errorf("SuccessfulRescale events on a full disk = %d, want 0", n)
	}
	empty()
	s.awaitReplicas(t, "full", 4)
}

// TestEngineDown checks that hpad does not scale while the engine is down, and then continues with
// the same stabilization windows.
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
		t.Errorf("message = %q, want %s in it", message, s.Host())
	}
	s.StartAgain()
	w.Await("down", policy.AbleToScale, "ScaleDownStabilized", "")
	s.awaitReplicas(t, "down", 3)
	s.stays(t, w, "down", 3, 3)
	if n := world.Told(w.View("down").Events, string(policy.ForeignWriter)); n != foreign {
		t.Errorf("new ForeignWriter events = %d, want 0", n-foreign)
	}
	s.load.Queue("down", 50)
	s.awaitReplicas(t, "down", 5)
	// Simulate a host crash.
	s.Kill()
	w.Await("down", policy.AbleToScale, "FailedGetScale", "temporary failure")
	s.StartAgain()
	s.awaitReplicas(t, "down", 5)
}
