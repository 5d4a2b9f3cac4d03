package docker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/swarm"
	"github.com/docker/go-units"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/docker"
	swarmfleet "github.com/hpad/hpad/targets/swarm"
	"github.com/hpad/hpad/targets/targettest"
	"github.com/hpad/hpad/test/docker/dockertest"
	"github.com/hpad/hpad/test/internal/world"
	"github.com/hpad/hpad/test/wait"
)

// checked is an image with a health check. "docker service create" cannot set a health check if
// the image has no shell.
const checked = "checked:1"

// cluster is a swarm with one manager.
type cluster struct{ *dockertest.Engine }

func newCluster(t testing.TB, options dockertest.Options) *cluster {
	t.Helper()
	c := &cluster{Engine: dockertest.Start(t, options)}
	c.ImportWorker(t, dockertest.Worker, "1")
	c.ImportWorker(t, checked, "checked", `HEALTHCHECK --interval=1s --retries=30 CMD ["/worker", "check"]`)
	c.CLI(t, "swarm", "init", "--advertise-addr", "127.0.0.1", "--listen-addr", "127.0.0.1:2377")
	return c
}

// create creates a service from the worker image with additional arguments.
func (c *cluster) create(t testing.TB, name string, replicas int, more ...string) {
	t.Helper()
	c.createOf(t, dockertest.Worker, name, replicas, more...)
}

// createOf creates a service from an image.
func (c *cluster) createOf(t testing.TB, image, name string, replicas int, more ...string) {
	t.Helper()
	args := append([]string{
		"service", "create", "--detach", "--no-resolve-image", "--name", name, "--replicas", strconv.Itoa(replicas),
		"--stop-grace-period", "5s", "--restart-delay", "100ms",
	}, more...)
	c.CLI(t, append(args, image)...)
}

func (c *cluster) update(t testing.TB, name string, args ...string) {
	t.Helper()
	c.CLI(t, append(append([]string{"service", "update", "--detach", "--no-resolve-image"}, args...), name)...)
}

func (c *cluster) service(t testing.TB, name string) swarm.Service {
	t.Helper()
	service, _, err := c.Client.ServiceInspectWithRaw(t.Context(), name, swarm.ServiceInspectOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return service
}

// awaitUpdate waits until an update of a service has completed.
func (c *cluster) awaitUpdate(t testing.TB, name string) {
	t.Helper()
	wait.For(t, patience, "completed update of "+name, func() (string, bool) {
		status := c.service(t, name).UpdateStatus
		return fmt.Sprintf("%+v", status), status != nil && status.State == swarm.UpdateStateCompleted
	})
}

// running returns the number of a service's running tasks, without those that are being stopped.
func (c *cluster) running(t testing.TB, name string) int {
	t.Helper()
	tasks, err := c.Client.TaskList(t.Context(), swarm.TaskListOptions{
		Filters: filters.NewArgs(filters.Arg("service", name), filters.Arg("desired-state", "running")),
	})
	if err != nil {
		t.Fatal(err)
	}
	running := 0
	for _, task := range tasks {
		if task.Status.State == swarm.TaskStateRunning {
			running++
		}
	}
	return running
}

func (c *cluster) awaitRunning(t testing.TB, name string, n int) {
	t.Helper()
	wait.For(t, patience, fmt.Sprintf("%d running tasks of %s", n, name), func() (string, bool) {
		running := c.running(t, name)
		return fmt.Sprintf("%d running", running), running == n
	})
}

func swarmFleet(t testing.TB, host string) *swarmfleet.Fleet {
	t.Helper()
	config := &swarmfleet.Config{Config: docker.Config{Host: host, ResourceInterval: time.Second}, Discovery: targets.Discovery{Discover: true}}
	config.SetDefaults()
	f, err := swarmfleet.New("shop", config, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func swarmRef(name string) targets.Ref { return targets.Ref{Fleet: "shop", Name: name} }

// reading returns the reading of a service. It retries, because a busy host may exceed the fleet's
// timeout.
func reading(t testing.TB, f *swarmfleet.Fleet, name string) targets.Reading {
	t.Helper()
	var read targets.Reading
	wait.For(t, patience, "reading of "+name, func() (string, bool) {
		readings, err := f.Snapshot(t.Context(), []targets.Ref{swarmRef(name)})
		if err == nil {
			read, err = readings[swarmRef(name)], readings[swarmRef(name)].Err
		}
		if err != nil && !errors.Is(err, targets.ErrTransient) {
			t.Fatal(err)
		}
		return fmt.Sprint(err), err == nil
	})
	return read
}

// awaitReading waits for a reading that meets a condition.
func awaitReading(t testing.TB, f *swarmfleet.Fleet, name, what string, wanted func(r targets.Reading) bool) targets.Reading {
	t.Helper()
	var last targets.Reading
	wait.For(t, patience, what, func() (string, bool) {
		last = reading(t, f, name)
		return fmt.Sprintf("%+v, hold %+v", last, last.Hold), wanted(last)
	})
	return last
}

// TestSwarmContract runs the contract suite on a real swarm.
func TestSwarmContract(t *testing.T) {
	if !separate(t) {
		return
	}
	c := newCluster(t, dockertest.Options{Version: dockertest.Newest})
	services := 0
	targettest.Run(t, targettest.Kind{Samples: true, Patience: patience, New: func(t *testing.T, counts ...int32) *targettest.Platform {
		gate := newGate(t, c.Engine)
		p := &targettest.Platform{Missing: swarmRef("missing"), Survive: true}
		for _, count := range counts {
			services++
			name := fmt.Sprintf("contract%d", services)
			c.create(t, name, int(count), "--env", "WORKER_STOP_AFTER=700ms")
			// The engine may panic if a service is removed while its tasks end.
			t.Cleanup(func() { c.CLI(t, "service", "scale", "--detach", name+"=0") })
			p.Refs = append(p.Refs, swarmRef(name))
		}
		p.Open = func(t *testing.T) targets.Fleet { return swarmFleet(t, gate.host()) }
		p.SetCount = func(t *testing.T, ref targets.Ref, n int32) {
			c.CLI(t, "service", "scale", "--detach", fmt.Sprintf("%s=%d", ref.Name, n))
		}
		p.Hold = func(t *testing.T, ref targets.Ref, on bool) {
			if on {
				c.update(t, ref.Name, "--update-delay", "1h", "--env-add", "VERSION=2")
				return
			}
			c.update(t, ref.Name, "--update-delay", "0s")
			c.awaitUpdate(t, ref.Name)
		}
		p.Unreachable = func(_ *testing.T, on bool) { gate.set(func() { gate.broken = on }) }
		p.Throttle = func(_ *testing.T, on bool) { gate.set(func() { gate.throttle = on }) }
		p.Hang = func(_ *testing.T, on bool) { gate.hold(on) }
		p.SlowStop = func(*testing.T, targets.Ref) {} // all workers stop slowly
		p.Writes = func() int {
			gate.mu.Lock()
			defer gate.mu.Unlock()
			return gate.writes
		}
		p.Sampling = func() bool {
			gate.mu.Lock()
			defer gate.mu.Unlock()
			return time.Since(gate.sampled) < 2500*time.Millisecond
		}
		return p
	}})
}

// TestSwarm runs the cases that can share a swarm.
func TestSwarm(t *testing.T) {
	onVersions(t, []scenario[cluster]{
		{"grows and shrinks", both, swarmFollowsLoad},
		{"lost update", both, swarmLosesNoUpdate},
		{"update", packaged, swarmWaitsForUpdate},
		{"restart", newest, swarmRestarts},
		{"immediate hold", newest, swarmHoldsImmediately},
		{"no suitable node", both, swarmReportsUnplacedTasks},
		{"failing", both, swarmReportsFailures},
		{"slow health", both, swarmWaitsForHealth},
		{"cpu", both, swarmSamplesCPU},
		{"labels", newest, swarmLabels},
	}, func(t *testing.T, options dockertest.Options) *cluster { return newCluster(t, options) })
}

// swarmFollowsLoad checks that hpad scales a service with its queue, to zero and back, and detects
// a manual change.
func swarmFollowsLoad(t *testing.T, c *cluster) {
	load := world.NewLoad(t)
	c.create(t, "shop_mail", 1)
	load.Queue("mail", 40)
	w := world.New(t, fmt.Sprintf("[fleets.shop]\nkind = \"swarm\"\nhost = %q\n", c.Host())+load.Source()+
		world.Queued("mail", `{ fleet = "shop", service = "shop_mail" }`, 0, 6))
	c.awaitRunning(t, "shop_mail", 4)
	load.Queue("mail", 20)
	c.awaitRunning(t, "shop_mail", 2)
	load.Queue("mail", 0)
	c.awaitRunning(t, "shop_mail", 0)
	load.Queue("mail", 30)
	c.awaitRunning(t, "shop_mail", 3)
	w.Passes("mail", 2)
	awaitLogs(t, w, "mail")
	c.CLI(t, "service", "scale", "--detach", "shop_mail=5")
	w.Await("mail", policy.ForeignWriter, "", "")
	c.awaitRunning(t, "shop_mail", 3)
}

// swarmRestarts checks that a restart replaces all tasks, and that it does not resume a paused update.
func swarmRestarts(t *testing.T, c *cluster) {
	c.create(t, "restarted", 2)
	c.awaitRunning(t, "restarted", 2)
	f := swarmFleet(t, c.Host())
	ids := func(r targets.Reading) (all []string) {
		for _, instance := range r.Instances {
			if !instance.Deleting {
				all = append(all, instance.ID)
			}
		}
		return all
	}
	before := ids(awaitReading(t, f, "restarted", "two instances", func(r targets.Reading) bool { return len(ids(r)) == 2 && r.Hold == nil }))
	if err := f.Restart(t.Context(), swarmRef("restarted")); err != nil {
		t.Fatal(err)
	}
	awaitReading(t, f, "restarted", "two other instances", func(r targets.Reading) bool {
		return r.Hold == nil && len(ids(r)) == 2 && !slices.ContainsFunc(ids(r), func(id string) bool { return slices.Contains(before, id) })
	})
	c.update(t, "restarted", "--update-monitor", "10s", "--update-failure-action", "pause", "--env-add", "WORKER_EXIT_AFTER=100ms")
	awaitReading(t, f, "restarted", "a paused update", func(r targets.Reading) bool { return r.Hold != nil && r.Hold.Reason == swarmfleet.UpdatePaused })
	paused := c.service(t, "restarted").Version
	held, is := errors.AsType[*targets.HeldError](f.Restart(t.Context(), swarmRef("restarted")))
	if !is || held.Hold.Reason != swarmfleet.UpdatePaused || c.service(t, "restarted").Version != paused {
		t.Errorf("Restart() of a paused update = %v, version %v, want the hold and version %v", held, c.service(t, "restarted").Version, paused)
	}
}

// swarmLosesNoUpdate checks that hpad does not overwrite concurrent updates of a service.
func swarmLosesNoUpdate(t *testing.T, c *cluster) {
	const updates, scales = 25, 25
	c.create(t, "contended", 1)
	f := swarmFleet(t, c.Host())
	var group sync.WaitGroup
	defer group.Wait() // needed if the test fails early
	group.Go(func() {
		for n := range updates {
			if err := c.label(t.Context(), "contended", fmt.Sprintf("n%d", n)); err != nil {
				t.Errorf("add label %d: %v", n, err)
				return
			}
		}
	})
	conflicts := 0
	for n := range scales {
		count := int32(1 + n%2)
		for {
			err := f.SetReplicas(t.Context(), swarmRef("contended"), count, reading(t, f, "contended").Version, "")
			if err == nil {
				break
			}
			if !errors.Is(err, targets.ErrConflict) {
				t.Fatalf("SetReplicas() during updates = %v, want nil or ErrConflict", err)
			}
			conflicts++
		}
	}
	group.Wait()
	service := c.service(t, "contended")
	if got := len(service.Spec.Labels); got != updates {
		t.Errorf("labels = %d of %d: %v", got, updates, slices.Sorted(maps.Keys(service.Spec.Labels)))
	}
	if got, want := *service.Spec.Mode.Replicated.Replicas, uint64(1+(scales-1)%2); got != want {
		t.Errorf("replicas = %d, want %d from the last write", got, want)
	}
	t.Logf("%d conflicts in %d writes", conflicts, scales)
}

// label adds a label to a service, and retries after a conflict.
func (c *cluster) label(ctx context.Context, name, label string) error {
	for {
		service, _, err := c.Client.ServiceInspectWithRaw(ctx, name, swarm.ServiceInspectOptions{})
		if err != nil {
			return err
		}
		if service.Spec.Labels == nil {
			service.Spec.Labels = map[string]string{}
		}
		service.Spec.Labels[label] = "set"
		_, err = c.Client.ServiceUpdate(ctx, service.ID, service.Version, service.Spec, swarm.ServiceUpdateOptions{})
		if err == nil || !strings.Contains(err.Error(), "update out of sequence") {
			return err
		}
	}
}

// swarmWaitsForUpdate checks that hpad does not scale a service during an update, because a write
// would replace the version that a rollback restores.
func swarmWaitsForUpdate(t *testing.T, c *cluster) {
	load := world.NewLoad(t)
	c.create(t, "updated", 3, "--env", "VERSION=1")
	c.awaitRunning(t, "updated", 3)
	load.Queue("updated", 30)
	w := world.New(t, fmt.Sprintf("[fleets.shop]\nkind = \"swarm\"\nhost = %q\n", c.Host())+load.Source()+
		world.Queued("updated", `{ fleet = "shop", service = "updated" }`, 1, 6))
	w.Passes("updated", 2)
	c.update(t, "updated", "--env-add", "VERSION=2", "--update-delay", "1h")
	load.Queue("updated", 50)
	w.Await("updated", policy.AbleToScale, swarmfleet.UpdateInProgress, "is being updated")
	w.Passes("updated", 3)
	service := c.service(t, "updated")
	if got := *service.Spec.Mode.Replicated.Replicas; got != 3 {
		t.Errorf("replicas during the update = %d, want 3 as before", got)
	}
	if got := service.PreviousSpec.TaskTemplate.ContainerSpec.Env; !slices.Contains(got, "VERSION=1") {
		t.Errorf("a rollback would return to %v, want VERSION=1", got)
	}
	c.CLI(t, "service", "rollback", "--detach", "updated")
	c.awaitRunning(t, "updated", 5)
	if got := c.service(t, "updated").Spec.TaskTemplate.ContainerSpec.Env; !slices.Contains(got, "VERSION=1") {
		t.Errorf("environment after the rollback = %v, want VERSION=1", got)
	}
}

// swarmHoldsImmediately checks that hpad does not scale a service that is being updated, even
// before the swarm reports the state of the update.
func swarmHoldsImmediately(t *testing.T, c *cluster) {
	c.create(t, "forced", 2)
	c.awaitRunning(t, "forced", 2)
	f := swarmFleet(t, c.Host())
	for n := range 5 {
		c.update(t, "forced", "--force")
		if got := reading(t, f, "forced"); got.Hold == nil || got.Hold.Reason != swarmfleet.UpdateInProgress {
			t.Errorf("hold = %+v immediately after update %d, want UpdateInProgress", got.Hold, n)
		}
		if err := f.SetReplicas(t.Context(), swarmRef("forced"), 5, "", ""); !errors.Is(err, targets.ErrHeld) {
			t.Errorf("SetReplicas() immediately after update %d = %v, want ErrHeld", n, err)
		}
	}
	free := awaitReading(t, f, "forced", "end of the update", func(r targets.Reading) bool { return r.Hold == nil })
	if status := c.service(t, "forced").UpdateStatus; status == nil || status.State != swarm.UpdateStateCompleted {
		t.Errorf("hold ended with update status %+v", status)
	}
	if err := f.SetReplicas(t.Context(), swarmRef("forced"), 3, free.Version, ""); err != nil {
		t.Errorf("SetReplicas() after the update = %v", err)
	}
}

// swarmReportsUnplacedTasks checks that a task that does not fit on any node is reported and is a
// pending instance.
func swarmReportsUnplacedTasks(t *testing.T, c *cluster) {
	c.create(t, "large", 1, "--reserve-memory", "100GB")
	f := swarmFleet(t, c.Host())
	found := awaitReading(t, f, "large", "notice", func(r targets.Reading) bool { return len(r.Notices) > 0 })
	want := policy.Notice{
		Condition: swarmfleet.InsufficientCapacity, Reason: swarmfleet.NoSuitableNode,
		Message: `1 tasks of service "large" are waiting for a node: no suitable node (insufficient resources on 1 node)`,
	}
	if found.Notices[0] != want || found.StatusReplicas != 1 || found.Instances[0].Phase != policy.PhasePending {
		t.Errorf("reading = %+v, want one pending task and %+v", found, want)
	}
}

// swarmReportsFailures checks that tasks that fail or cannot be created are reported.
func swarmReportsFailures(t *testing.T, c *cluster) {
	c.create(t, "crashing", 1, "--env", "WORKER_EXIT_AFTER=300ms")
	c.createOf(t, "nowhere:1", "imageless", 1)
	f := swarmFleet(t, c.Host())
	for name, words := range map[string]string{"crashing": "non-zero exit (1)", "imageless": "No such image: nowhere:1"} {
		awaitReading(t, f, name, "notice with "+words, func(r targets.Reading) bool {
			return slices.ContainsFunc(r.Notices, func(n policy.Notice) bool {
				return n.Condition == swarmfleet.TasksFailing && n.Reason == swarmfleet.TaskFailed && strings.Contains(n.Message, words)
			})
		})
	}
}

// swarmWaitsForHealth checks that a task becomes ready when its health check succeeds, and that its
// start and readiness times do not change afterwards.
func swarmWaitsForHealth(t *testing.T, c *cluster) {
	c.createOf(t, checked, "late", 1, "--env", "WORKER_HEALTH_AFTER=3s")
	f := swarmFleet(t, c.Host())
	awaitReading(t, f, "late", "task that is not ready yet", func(r targets.Reading) bool {
		return len(r.Instances) == 1 && r.Instances[0].Phase == policy.PhasePending && r.Instances[0].Readiness == policy.ReadinessFalse
	})
	first := awaitReading(t, f, "late", "ready task", func(r targets.Reading) bool {
		return len(r.Instances) == 1 && r.Instances[0].Readiness == policy.ReadinessTrue
	}).Instances[0]
	c.update(t, "late", "--label-add", "some=thing")
	if err := f.SetReplicas(t.Context(), swarmRef("late"), 2, "", ""); err != nil {
		t.Fatal(err)
	}
	later := awaitReading(t, f, "late", "second task", func(r targets.Reading) bool {
		return len(r.Instances) == 2 && r.Instances[1].Readiness == policy.ReadinessTrue
	}).Instances[0]
	if later.ID != first.ID || !later.StartedAt.Equal(first.StartedAt) || !later.ReadinessChanged.Equal(first.ReadinessChanged) {
		t.Errorf("a change of the count changed task %+v to %+v", first, later)
	}
}

// swarmSamplesCPU checks that samples are in cores and bytes and match "docker stats", and that
// requests are the service's reservations or limits.
func swarmSamplesCPU(t *testing.T, c *cluster) {
	c.create(t, "burning", 1, "--env", "WORKER_BURN=0.2", "--limit-cpu", "0.5", "--limit-memory", "64MB", "--reserve-memory", "16MB")
	f := swarmFleet(t, c.Host())
	found := awaitReading(t, f, "burning", "running task", func(r targets.Reading) bool {
		return len(r.Instances) == 1 && r.Instances[0].Phase == policy.PhaseRunning
	})
	requests := []policy.Amount{{Resource: "cpu", Milli: 500}, {Resource: "memory", Milli: 16 << 20 * 1000}}
	if got := found.Instances[0].Tasks[0].Requests; !slices.Equal(got, requests) {
		t.Errorf("requests = %+v, want %+v", got, requests)
	}
	limits := []policy.Amount{{Resource: "cpu", Milli: 500}, {Resource: "memory", Milli: 64 << 20 * 1000}}
	if got := found.Locations.At(0).Limits; !slices.Equal(got, limits) {
		t.Errorf("limits = %+v, want %+v", got, limits)
	}
	wait.For(t, patience, "samples as in docker stats", func() (string, bool) {
		reading(t, f, "burning")
		samples, err := f.Samples(t.Context(), []targets.Ref{swarmRef("burning")})
		if err != nil {
			t.Fatal(err)
		}
		if len(samples[swarmRef("burning")].Instances) != 1 {
			return fmt.Sprintf("%+v", samples), false
		}
		tasks := samples[swarmRef("burning")].Instances[0].Tasks
		cpu, hasCPU := policy.ResourceSample(tasks, "cpu")
		memory, hasMemory := policy.ResourceSample(tasks, "memory")
		percent, bytes := c.stats(t, "burning.1."+found.Instances[0].ID)
		// The two measurements cover different seconds. A wrong unit would differ by a factor of
		// 10 or more.
		near := func(got, want float64) bool { return got > want/3 && got < want*3 }
		return fmt.Sprintf("hpad: %d thousandths of a core and %d of a byte, docker stats: %v %% and %v bytes", cpu, memory, percent, bytes),
			hasCPU && hasMemory && near(float64(cpu), percent*10) && near(float64(memory)/1000, bytes)
	})
}

// stats returns a container's CPU use as a percentage of a core and its memory in bytes, as
// reported by "docker stats".
func (c *cluster) stats(t testing.TB, name string) (cpu, memory float64) {
	t.Helper()
	fields := strings.Fields(c.CLI(t, "stats", "--no-stream", "--format", "{{.CPUPerc}} {{.MemUsage}}", name))
	if len(fields) < 2 {
		t.Fatalf("docker stats printed %q", fields)
	}
	cpu, err := strconv.ParseFloat(strings.TrimSuffix(fields[0], "%"), 64)
	if err != nil {
		t.Fatalf("docker stats printed %q: %v", fields, err)
	}
	bytes, err := units.RAMInBytes(fields[1])
	if err != nil {
		t.Fatalf("docker stats printed %q: %v", fields, err)
	}
	return cpu, float64(bytes)
}

// swarmLabels checks that an autoscaler is created and removed with a labeled service, and follows
// changes of the labels.
func swarmLabels(t *testing.T, c *cluster) {
	const name = "shop/labeled"
	load := world.NewLoad(t)
	load.Queue("labeled", 30)
	w := world.New(t, fmt.Sprintf("[fleets.shop]\nkind = \"swarm\"\nhost = %q\ndiscover = true\n", c.Host())+load.Source())
	c.create(t, "labeled", 1, "--label", "hpad.enable=true", "--label", "hpad.max=5",
		"--label", "hpad.metrics.0.type=External", "--label", "hpad.metrics.0.name=queue", "--label", "hpad.metrics.0.source=prom",
		"--label", `hpad.metrics.0.query=queue{of="labeled"}`, "--label", "hpad.metrics.0.average_value=10")
	c.awaitRunning(t, "labeled", 3)
	c.update(t, "labeled", "--label-add", "hpad.max=many")
	awaitLabels(t, w, name, api.DiscoveredInvalid, "hpad.max")
	load.Queue("labeled", 40)
	c.awaitRunning(t, "labeled", 4)
	c.update(t, "labeled", "--label-add", "hpad.max=2")
	c.awaitRunning(t, "labeled", 2)
	c.update(t, "labeled", "--label-add", "hpad.max=5", "--label-add", "hpad.cpu=60")
	wait.For(t, patience, "advice for the metric", func() (string, bool) {
		message := w.View(name).Evaluation.Error
		return message, strings.Contains(message, `states no cpu request for task "labeled"; reserve it in the service`)
	})
	c.CLI(t, "service", "rm", "labeled")
	awaitGone(t, w, name)
}
