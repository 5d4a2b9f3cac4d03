package docker

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/test/internal/world"
	"github.com/hpad/hpad/test/wait"
)

// labeled returns a Compose file that contains labels for autoscalers.
func labeled(most, window string) string {
	return fmt.Sprintf(`
services:
  web:
    image: worker:1
    stop_grace_period: 1s
    labels:
      hpad.enable: "true"
      hpad.min: "1"
      hpad.max: %q
      hpad.metrics.0.type: External
      hpad.metrics.0.name: queue
      hpad.metrics.0.source: prom
      hpad.metrics.0.query: queue{of="labeled"}
      hpad.metrics.0.average_value: "10"
      hpad.behavior.scale_down.stabilization_window: %q
  other:
    image: worker:1
    stop_grace_period: 1s
    labels: { hpad.enable: "true", hpad.max: "2", hpad.cpu: "60" }
  plain: { image: "worker:1" }
`, most, window)
}

// awaitLabels waits until a target's labels have the given state and their problem contains the
// given words.
func awaitLabels(t testing.TB, w *world.World, reference string, want api.DiscoveredState, words string) {
	t.Helper()
	wait.For(t, patience, fmt.Sprintf("%s labels of %s with %q", want, reference, words), func() (string, bool) {
		for _, d := range w.Discovered() {
			if d.Reference == reference {
				return fmt.Sprintf("%+v", d), d.State == want && strings.Contains(d.Problem, words)
			}
		}
		return "no labels", false
	})
}

// awaitGone waits for the removal of an autoscaler.
func awaitGone(t testing.TB, w *world.World, name string) {
	t.Helper()
	wait.For(t, patience, "removal of autoscaler "+name, func() (string, bool) {
		_, exists := w.Autoscaler(name)
		return "the autoscaler still exists", !exists
	})
}

// labels checks that autoscalers are created and removed with their services, and follow changes of
// the labels. If labels become invalid, the last valid settings must remain in use. The
// configuration must take precedence over labels.
func labels(t *testing.T, s *site) {
	const name = "shop/labeled/web"
	p := s.Project(t, "labeled", labeled("4", "10m"))
	text := s.fleet("compose", "discover = true") + s.load.Source()
	w := world.New(t, text)
	if views := w.Autoscalers(); len(views) != 0 {
		t.Fatalf("autoscalers without labels = %+v, want none", views)
	}

	// The autoscaler is created.
	s.load.Queue("labeled", 100)
	p.Compose("up", "--detach")
	s.awaitReplicas(t, "labeled", 4)
	awaitLabels(t, w, name, api.DiscoveredActive, "")
	awaitLabels(t, w, "shop/labeled/other", api.DiscoveredActive, "")
	w.Await("shop/labeled/other", policy.ScalingActive, "FailedGetResourceMetric", "cpus")
	if view := w.View(name); view.Spec.MaxReplicas != 4 || view.Kind != "compose" || view.Labels["hpad.max"] != "4" {
		t.Errorf("got %+v, want the limits in the labels", view)
	}

	// Stabilization windows survive a restart.
	s.load.Queue("labeled", 10)
	w.Await(name, policy.AbleToScale, "ScaleDownStabilized", "")
	w.Restart(text)
	w.Passes(name, 3)
	w.Await(name, policy.AbleToScale, "ScaleDownStabilized", "")
	if found := s.replicas(t, "labeled", "web"); len(found) != 4 {
		t.Errorf("after a restart: %s, want 4 within the window of 10m", describe(found))
	}

	// Changed labels take effect.
	s.load.Queue("labeled", 100)
	p.Write("compose.yaml", labeled("6", "2s"))
	p.Compose("up", "--detach")
	s.awaitReplicas(t, "labeled", 6)

	// With invalid labels, the last settings remain in use and the other service is not affected.
	p.Write("compose.yaml", labeled("many", "2s"))
	p.Compose("up", "--detach")
	awaitLabels(t, w, name, api.DiscoveredInvalid, "hpad.max")
	awaitLabels(t, w, "shop/labeled/other", api.DiscoveredActive, "")
	s.load.Queue("labeled", 20)
	s.awaitReplicas(t, "labeled", 2)
	if most := w.View(name).Spec.MaxReplicas; most != 6 {
		t.Errorf("max_replicas with invalid labels = %d, want 6 as before", most)
	}
	p.Write("compose.yaml", strings.Replace(labeled("3", "2s"), "hpad.min:", "hpad.mni:", 1))
	p.Compose("up", "--detach")
	awaitLabels(t, w, name, api.DiscoveredInvalid, "hpad.mni")
	p.Write("compose.yaml", labeled("3", "2s"))
	p.Compose("up", "--detach")
	awaitLabels(t, w, name, api.DiscoveredActive, "")
	s.load.Queue("labeled", 100)
	s.awaitReplicas(t, "labeled", 3)

	// The configuration takes precedence.
	w.Restart(text + world.Queued("labeled", `{ fleet = "shop", project = "labeled", service = "web" }`, 1, 2))
	awaitLabels(t, w, name, api.DiscoveredOverridden, "")
	s.awaitReplicas(t, "labeled", 2)
	w.Restart(text)
	awaitLabels(t, w, name, api.DiscoveredActive, "")
	s.awaitReplicas(t, "labeled", 3)

	// First remove the labels of one service, then all services.
	p.Write("compose.yaml", strings.Replace(labeled("3", "2s"), `hpad.enable: "true", hpad.max: "2", hpad.cpu: "60"`, `team: shop`, 1))
	p.Compose("up", "--detach", "--scale", "web=3")
	awaitGone(t, w, "shop/labeled/other")
	awaitLabels(t, w, name, api.DiscoveredActive, "")
	p.Compose("down", "--timeout", "1")
	awaitGone(t, w, name)
}
