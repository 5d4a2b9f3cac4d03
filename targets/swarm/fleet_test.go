package swarm

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/test/wait"
)

func read(t *testing.T, f *Fleet, name string) targets.Reading {
	t.Helper()
	readings, err := f.Snapshot(t.Context(), []targets.Ref{ref(name)})
	if err != nil {
		t.Fatalf("Snapshot() = %v", err)
	}
	return readings[ref(name)]
}

// TestRoundTakesTwoCalls checks that a reading takes two lists for any number of targets.
func TestRoundTakesTwoCalls(t *testing.T) {
	for _, count := range []int{1, maxFiltered, 10 * maxFiltered} {
		t.Run(fmt.Sprint(count), func(t *testing.T) {
			i := newFakeManager(t)
			var refs []targets.Ref
			for n := range count {
				name := fmt.Sprintf("s%d", n)
				i.add(name, 2)
				refs = append(refs, ref(name))
			}
			i.add("other", 1)
			i.age(time.Hour)
			f := openFleet(t, testConfig(t, i.host()))
			for range 3 {
				readings, err := f.Snapshot(t.Context(), refs)
				if err != nil || len(readings) != count {
					t.Fatalf("Snapshot() = %d readings, %v", len(readings), err)
				}
				for _, ref := range refs {
					if got := readings[ref]; got.Err != nil || got.StatusReplicas != 2 {
						t.Fatalf("%s: replicas = %d, %v, want 2", ref, got.StatusReplicas, got.Err)
					}
				}
			}
			if services, tasks := i.called("GET services"), i.called("GET tasks"); services != 3 || tasks != 3 {
				t.Errorf("3 rounds made %d lists of services and %d of tasks, want 3 each", services, tasks)
			}
			if info, nodes := i.called("GET info"), i.called("GET nodes"); info != 1 || nodes != 1 {
				t.Errorf("info and node calls = %d and %d, want 1 each", info, nodes)
			}
		})
	}
}

func TestReading(t *testing.T) {
	i := newFakeManager(t)
	i.add("shop_web", 1)
	limits := []policy.Amount{{Resource: "cpu", Milli: 500}, {Resource: "memory", Milli: 64 << 20 * 1000}}
	i.with("shop_web", func(s *fakeService) {
		s.spec["TaskTemplate"].(map[string]any)["Resources"] = map[string]any{
			"Limits":       map[string]any{"NanoCPUs": json.Number("500000000"), "MemoryBytes": json.Number("67108864")},
			"Reservations": map[string]any{"NanoCPUs": json.Number("250000000")},
		}
	})
	got := read(t, openFleet(t, testConfig(t, i.host())), "shop_web")
	if got.Err != nil || len(got.Instances) != 1 || got.Min != nil || got.Max != nil || got.Hold != nil || got.Notices != nil {
		t.Fatalf("reading = %+v, want one instance without a notice or hold", got)
	}
	id := got.Instances[0].ID
	want := targets.LocationList{{Name: "shop_web.1." + id, Node: "node-1", Addresses: []string{"10.0.1.7"}, Ports: targets.Ports{{Number: 8080}}, Limits: limits}}
	if difference := cmp.Diff(targets.Locations(want), got.Locations); difference != "" {
		t.Errorf("locations (-want +got):\n%s", difference)
	}
}

func TestUnscalable(t *testing.T) {
	i := newFakeManager(t)
	for name, mode := range map[string]map[string]any{
		"agent": {"Global": map[string]any{}},
		"batch": {"ReplicatedJob": map[string]any{"MaxConcurrent": 1}},
		"clean": {"GlobalJob": map[string]any{}},
	} {
		i.add(name, 1)
		i.with(name, func(s *fakeService) { s.spec["Mode"] = mode })
	}
	f := openFleet(t, testConfig(t, i.host()))
	for _, test := range []struct {
		name, reason, text string
		class              error
	}{
		{"agent", globalService, `service "agent" is global`, targets.ErrUnscalable},
		{"batch", jobService, `service "batch" is a job`, targets.ErrUnscalable},
		{"clean", jobService, `service "clean" is a job`, targets.ErrUnscalable},
		{"none", serviceNotFound, `there is no service "none"`, targets.ErrTargetNotFound},
		{"id-of-agent", serviceNotFound, `there is no service "id-of-agent"`, targets.ErrTargetNotFound},
	} {
		for call, err := range map[string]error{"Snapshot": read(t, f, test.name).Err, "SetReplicas": f.SetReplicas(t.Context(), ref(test.name), 2, "", "")} {
			if !errors.Is(err, test.class) || targets.Reason(err) != test.reason || !strings.Contains(err.Error(), test.text) {
				t.Errorf("%s(%s) = %v (%s), want %q (%s)", call, test.name, err, targets.Reason(err), test.text, test.reason)
			}
		}
	}
	if err := f.SetReplicas(t.Context(), targets.Ref{Fleet: "other", Name: "agent"}, 2, "", ""); !errors.Is(err, targets.ErrTargetNotFound) {
		t.Errorf("SetReplicas() of another fleet's target = %v, want ErrTargetNotFound", err)
	}
}

// TestFailuresAreReported checks that failed and replaced tasks are reported while their
// successors are new.
func TestFailuresAreReported(t *testing.T) {
	i := newFakeManager(t)
	i.add("web", 2)
	f := openFleet(t, testConfig(t, i.host()))
	i.age(time.Hour)
	if got := read(t, f, "web"); got.Notices != nil || i.called("GET tasks") != 1 {
		t.Errorf("notices = %+v after %d lists for an unchanged service, want none after 1 list", got.Notices, i.called("GET tasks"))
	}
	i.mu.Lock()
	s := i.findLocked("web")
	s.tasks[0].created = time.Now()
	failed := func(slot int, ago time.Duration, state, err string) {
		s.tasks = append(s.tasks, &fakeTask{id: fmt.Sprintf("failed%d", len(s.tasks)), slot: slot, state: state, desired: "shutdown", err: err, since: time.Now().Add(-ago), spec: s.spec["TaskTemplate"]})
	}
	failed(1, 30*time.Second, "failed", "task: non-zero exit (1)")
	failed(2, 10*time.Second, "rejected", "No such image: worker:9")
	failed(2, 20*time.Second, "failed", "task: non-zero exit (2)")
	failed(3, time.Second, "shutdown", "")
	failed(4, time.Hour, "failed", "long ago")
	i.mu.Unlock()
	want := []policy.Notice{{
		Condition: TasksFailing, Reason: TaskFailed,
		Message: `tasks of service "web" failed in 2 slots within the last minute; last error: No such image: worker:9`,
	}}
	if got := read(t, f, "web"); !cmp.Equal(want, got.Notices) || got.StatusReplicas != 2 || len(got.Instances) != 2 {
		t.Errorf("reading = %+v, want two instances and %+v", got, want)
	}
	i.setRefusal(func(r *http.Request) (int, string) {
		if strings.Contains(r.URL.Query().Get("filters"), "shutdown") {
			return http.StatusInternalServerError, "no"
		}
		return 0, ""
	})
	if got := read(t, f, "web"); got.Err != nil || got.Notices != nil || got.StatusReplicas != 2 {
		t.Errorf("reading without the ended tasks = %+v, want no notice", got)
	}
}

func TestCapacityIsTold(t *testing.T) {
	i := newFakeManager(t)
	i.add("web", 0)
	i.with("web", func(s *fakeService) {
		s.err = "no suitable node (insufficient resources on 1 node)"
		s.setCount(3)
	})
	f := openFleet(t, testConfig(t, i.host()))
	var got targets.Reading
	wait.Soon(t, "tasks", func() bool {
		got = read(t, f, "web")
		return got.StatusReplicas == 3
	})
	want := []policy.Notice{{
		Condition: InsufficientCapacity, Reason: NoSuitableNode,
		Message: `3 tasks of service "web" are waiting for a node: no suitable node (insufficient resources on 1 node)`,
	}}
	if difference := cmp.Diff(want, got.Notices); difference != "" {
		t.Errorf("notices (-want +got):\n%s", difference)
	}
}

// TestNothingElseChanges checks that a write changes only the count, and a restart only the number
// that forces an update, and that both keep fields that are unknown to the client.
func TestNothingElseChanges(t *testing.T) {
	i := newFakeManager(t)
	s := i.add("web", 2)
	before, err := json.Marshal(s.spec)
	if err != nil {
		t.Fatal(err)
	}
	f := openFleet(t, testConfig(t, i.host()))
	wantSent := func(updates int, old, changed string) {
		t.Helper()
		if len(i.updates) != updates {
			t.Fatalf("updates = %d, want %d", len(i.updates), updates)
		}
		var sent map[string]any
		decoder := json.NewDecoder(strings.NewReader(i.updates[updates-1]))
		decoder.UseNumber()
		if err := decoder.Decode(&sent); err != nil {
			t.Fatal(err)
		}
		after, err := json.Marshal(sent)
		if err != nil {
			t.Fatal(err)
		}
		want := strings.Replace(string(before), old, changed, 1)
		if string(after) != want || want == string(before) {
			t.Errorf("sent\n%s\nwant\n%s", after, want)
		}
		before = after
	}
	if err := f.SetReplicas(t.Context(), ref("web"), 5, read(t, f, "web").Version, "busy"); err != nil {
		t.Fatal(err)
	}
	wantSent(1, `"Replicas":2`, `"Replicas":5`)
	if err := f.Restart(t.Context(), ref("web")); err != nil {
		t.Fatal(err)
	}
	wantSent(2, `"ForceUpdate":0`, `"ForceUpdate":1`)
}

// TestRestartDuringUpdate checks that an update, also a paused one, rejects a restart.
func TestRestartDuringUpdate(t *testing.T) {
	for state, reason := range map[string]string{"paused": UpdatePaused, "rollback_paused": UpdatePaused, "updating": UpdateInProgress, "completed": ""} {
		t.Run(state, func(t *testing.T) {
			i := newFakeManager(t)
			i.add("web", 2)
			i.with("web", func(s *fakeService) { s.updateStatus = map[string]any{"State": state} })
			f := openFleet(t, testConfig(t, i.host()))
			held, _ := errors.AsType[*targets.HeldError](f.Restart(t.Context(), ref("web")))
			if reason == "" && held != nil || reason != "" && (held == nil || held.Hold.Reason != reason) {
				t.Errorf("Restart() = %v, want the hold %q", held, reason)
			}
		})
	}
}

// TestLostUpdate checks that an outdated version is a conflict, even though the engine responds
// with 500.
func TestLostUpdate(t *testing.T) {
	i := newFakeManager(t)
	i.add("web", 2)
	f := openFleet(t, testConfig(t, i.host()))
	version := read(t, f, "web").Version
	i.setRefusal(func(r *http.Request) (int, string) {
		if r.Method == http.MethodPost {
			return http.StatusInternalServerError, "rpc error: code = Unknown desc = update out of sequence"
		}
		return 0, ""
	})
	err := f.SetReplicas(t.Context(), ref("web"), 3, version, "")
	if !errors.Is(err, targets.ErrConflict) || errors.Is(err, targets.ErrUnknownOutcome) || errors.Is(err, targets.ErrTransient) {
		t.Errorf("SetReplicas() = %v, want only ErrConflict", err)
	}
	i.setRefusal(func(r *http.Request) (int, string) {
		if r.Method == http.MethodPost {
			return http.StatusInternalServerError, "rpc error: code = DeadlineExceeded desc = context deadline exceeded"
		}
		return 0, ""
	})
	if err := f.SetReplicas(t.Context(), ref("web"), 3, version, ""); !errors.Is(err, targets.ErrUnknownOutcome) {
		t.Errorf("SetReplicas() after an internal error of the swarm = %v, want ErrUnknownOutcome", err)
	}
	i.setRefusal(func(r *http.Request) (int, string) {
		if r.Method == http.MethodPost {
			return http.StatusNotFound, "service web not found"
		}
		return 0, ""
	})
	if err := f.SetReplicas(t.Context(), ref("web"), 3, version, ""); !errors.Is(err, targets.ErrTargetNotFound) || targets.Reason(err) != serviceNotFound {
		t.Errorf("SetReplicas() of a service that was just removed = %v, want ErrTargetNotFound", err)
	}
}

func TestNoManager(t *testing.T) {
	i := newFakeManager(t)
	i.add("web", 2)
	f := openFleet(t, testConfig(t, i.host()))
	version := read(t, f, "web").Version
	i.setRefusal(func(*http.Request) (int, string) {
		return http.StatusServiceUnavailable, `This node is not a swarm manager. Use "docker swarm init" or "docker swarm join" to connect this node to swarm and try again.`
	})
	_, err := f.Snapshot(t.Context(), []targets.Ref{ref("web")})
	for call, err := range map[string]error{"Snapshot": err, "SetReplicas": f.SetReplicas(t.Context(), ref("web"), 3, version, "")} {
		if !errors.Is(err, targets.ErrTransient) || errors.Is(err, targets.ErrUnknownOutcome) || targets.Reason(err) != notSwarmManager ||
			!strings.Contains(err.Error(), "host must be a manager") || !strings.Contains(err.Error(), i.host()) {
			t.Errorf("%s() of a worker node = %v (%s), want %s with the host and a remedy", call, err, targets.Reason(err), notSwarmManager)
		}
	}
}

// samplesOf reads the samples of one target until enough returns true.
func samplesOf(t *testing.T, f *Fleet, name string, enough func(samples targets.Samples) bool) {
	t.Helper()
	var got targets.Samples
	wait.Soon(t, "matching samples", func() bool {
		read(t, f, name)
		answer, err := f.Samples(t.Context(), []targets.Ref{ref(name)})
		if err != nil {
			t.Fatalf("Samples() = %v", err)
		}
		got = answer[ref(name)]
		return enough(got)
	})
}

// TestNodes checks that a task is sampled by the engine of its node, which is configured by ID
// or hostname. If the engine is missing, the error names the setting.
func TestNodes(t *testing.T) {
	for _, key := range []string{"node2id", "node-2", ""} {
		t.Run("by "+key, func(t *testing.T) {
			manager, other := newFakeManager(t), newFakeManager(t)
			manager.nodes = append([]fakeNode{{"node2id", "node-2"}}, manager.nodes...)
			manager.add("web", 1)
			// Now the manager is the second node.
			slices.Reverse(manager.nodes)
			f := openFleet(t, testConfig(t, manager.host(), func(c *Config) {
				if key != "" {
					c.Nodes = map[string]string{key: other.host()}
				}
			}))
			if got := read(t, f, "web").Locations.At(0).Node; got != "node-2" {
				t.Errorf("node of the task = %q, want node-2", got)
			}
			if key == "" {
				samplesOf(t, f, "web", func(s targets.Samples) bool {
					return s.Err != nil && strings.Contains(s.Err.Error(), `a task runs on node "node-2", and nodes contains no engine for it`)
				})
				return
			}
			samplesOf(t, f, "web", func(s targets.Samples) bool { return len(s.Instances) == 1 && s.Err == nil })
			if reads, elsewhere := other.called("GET containers"), manager.called("GET containers"); reads == 0 || elsewhere != 0 {
				t.Errorf("reads by the node's engine = %d and by the manager's = %d, want reads only by the node's engine", reads, elsewhere)
			}
		})
	}
}

func TestDiscover(t *testing.T) {
	i := newFakeManager(t)
	for name, labels := range map[string]map[string]any{
		"web":   {"hpad.enable": "true", "hpad.max": "9", "com.example": "other"},
		"agent": {"hpad.enable": "false"},
		"db":    {"com.example": "hpad.enable"},
	} {
		i.add(name, 1)
		i.with(name, func(s *fakeService) { s.spec["Labels"] = labels })
	}
	i.with("agent", func(s *fakeService) { s.spec["Mode"] = map[string]any{"Global": map[string]any{}} })
	for name, enable := range map[string]string{"inside": "true", "quiet": "false"} {
		i.add(name, 1)
		i.with(name, func(s *fakeService) {
			s.spec["TaskTemplate"] = map[string]any{"ContainerSpec": map[string]any{"Labels": map[string]any{"hpad.enable": enable, "hpad.max": "3"}}}
		})
	}
	f := openFleet(t, testConfig(t, i.host(), func(c *Config) { c.Discover = true }))
	got, err := f.Discover(t.Context())
	want := []targets.Discovered{
		{Name: "agent", Labels: map[string]string{"hpad.enable": "false"}},
		{Name: "inside", Problem: "hpad.enable is a label of the service's containers, where it has no effect; move it and the other hpad labels " +
			"to the service (deploy.labels in a stack, docker service create --label)"},
		{Name: "web", Labels: map[string]string{"hpad.enable": "true", "hpad.max": "9"}},
	}
	if difference := cmp.Diff(want, got); err != nil || difference != "" {
		t.Errorf("Discover() (-want +got), %v:\n%s", err, difference)
	}
	i.setRefusal(func(*http.Request) (int, string) { return http.StatusInternalServerError, "no leader" })
	if got, err := f.Discover(t.Context()); err == nil || got != nil {
		t.Errorf("Discover() without a leader = %v, %v, want an error", got, err)
	}
	off := openFleet(t, testConfig(t, i.host()))
	if got, err := off.Discover(t.Context()); got != nil || err != nil {
		t.Errorf("Discover() without discover = true returned %v, %v", got, err)
	}
}

func TestCheck(t *testing.T) {
	i, dead := newFakeManager(t), newFakeManager(t)
	i.nodes = append(i.nodes, fakeNode{"node2id", "node-2"}, fakeNode{"node3id", "node-3"})
	dead.server.Close()
	f := openFleet(t, testConfig(t, i.host(), func(c *Config) { c.Nodes = map[string]string{"node-3": dead.host(), "nobody": i.host()} }))
	got, err := f.Check(t.Context())
	if err != nil {
		t.Fatalf("Check() = %v", err)
	}
	want := []string{
		"connected to Docker 20.10.24, API version 1.41",
		`node "node-1" is one of 1 managers in a swarm with 3 nodes`,
		"may read and update services",
		`cpu and memory of tasks on ["node-2"] cannot be sampled: nodes contains no engine for them`,
		`nodes contains "nobody", which is not the ID or hostname of a node; the nodes are node-1, node-2, node-3`,
	}
	last := `cpu and memory of tasks on "node-3" cannot be sampled: temporary failure: docker at ` + dead.host()
	if len(got) != len(want)+1 || !slices.Equal(got[:len(want)], want) || !strings.HasPrefix(got[len(want)], last) {
		t.Errorf("Check() = %q, want %q and a line that begins with %q", got, want, last)
	}
	if len(i.updates) != 0 {
		t.Errorf("updates by Check() = %d, want 0", len(i.updates))
	}

	i.setRefusal(func(r *http.Request) (int, string) {
		if r.Method == http.MethodPost {
			return http.StatusForbidden, "forbidden by the proxy"
		}
		return 0, ""
	})
	if _, err := f.Check(t.Context()); !errors.Is(err, targets.ErrForbidden) || !strings.Contains(err.Error(), "services can be read but not updated") {
		t.Errorf("Check() without the permission to update = %v, want ErrForbidden", err)
	}
	if _, err := openFleet(t, testConfig(t, dead.host())).Check(t.Context()); !errors.Is(err, targets.ErrTransient) || !strings.Contains(err.Error(), dead.host()) {
		t.Errorf("Check() of an unreachable engine = %v, want ErrTransient", err)
	}
}
