package nomad

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/settings/httpclient"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/targettest"
	"github.com/hpad/hpad/test/wait"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// readOne reads one target, which must succeed.
func readOne(t *testing.T, f *Fleet, name string) targets.Reading {
	t.Helper()
	reading := readAny(t, f, name)
	if reading.Err != nil {
		t.Fatalf("Snapshot(%s): Err = %v", name, reading.Err)
	}
	return reading
}

func readAny(t *testing.T, f *Fleet, name string) targets.Reading {
	t.Helper()
	readings, err := f.Snapshot(t.Context(), []targets.Ref{ref(name)})
	if err != nil {
		t.Fatalf("Snapshot(%s) = %v", name, err)
	}
	return readings[ref(name)]
}

func newFleet(t *testing.T, i *fakeServer) *Fleet {
	t.Helper()
	return openFleet(t, testConfig(t, i.server.URL), &targettest.Store{})
}

// TestRecorded checks the reading of recorded responses of Nomad 1.11.2: a job with a main task, a
// sidecar and a prestart task.
func TestRecorded(t *testing.T) {
	server := newRecorded(t)
	f := openFleet(t, testConfig(t, server), nil)
	reading := readOne(t, f, "web/app")
	if reading.SpecReplicas != 3 || reading.StatusReplicas != 3 || reading.Version != "10" {
		t.Errorf("spec %d, status %d, version %q, want 3, 3 and the JobModifyIndex 10", reading.SpecReplicas, reading.StatusReplicas, reading.Version)
	}
	if reading.Min == nil || *reading.Min != 1 || reading.Max == nil || *reading.Max != 10 {
		t.Errorf("bounds = %v and %v, want 1 and 10 from the scaling block", reading.Min, reading.Max)
	}
	if reading.Hold != nil {
		t.Errorf("hold = %+v, want nil, because no deployment with the job's CreateIndex is active", reading.Hold)
	}
	// The node has 5198 MHz on 2 cores: 100 MHz are 38.476… thousandths of a core.
	wantTasks := []policy.Task{
		{Name: "main", Requests: []policy.Amount{{Resource: "cpu", Milli: 39, RoundedUpNano: 523663}, {Resource: "memory", Milli: 32 << 20 * 1000}}},
		{Name: "side", Requests: []policy.Amount{{Resource: "cpu", Milli: 8, RoundedUpNano: 304733}, {Resource: "memory", Milli: 16 << 20 * 1000}}},
	}
	for n, instance := range reading.Instances {
		if instance.Phase != policy.PhaseRunning || instance.Readiness != policy.ReadinessTrue || instance.StartedAt.IsZero() || instance.ReadinessChanged.Before(instance.StartedAt) {
			t.Errorf("instance = %+v, want Running, and ready since it became healthy", instance)
		}
		if diff := cmp.Diff(wantTasks, instance.Tasks); diff != "" {
			t.Errorf("tasks (-want +got):\n%s", diff)
		}
		location := reading.Locations.At(n)
		if !strings.HasPrefix(location.Name, "web.app[") || location.Node != "vm" || len(location.Addresses) != 1 || location.Addresses[0] != "127.0.0.1" || len(location.Ports) == 0 || location.Ports[0].Label != "http" {
			t.Errorf("location = %+v, want the name, the node, 127.0.0.1 and the port http", location)
		}
	}
}

// newRecorded starts a server with the recorded responses in testdata, and returns its address.
func newRecorded(t *testing.T) string {
	files := map[string]string{
		"/v1/jobs": "jobs.json", "/v1/allocations": "allocations.json", "/v1/nodes": "nodes.json",
		"/v1/deployments": "deployments.json", "/v1/job/web": "job.json",
	}
	server := newHandler(t, func(w http.ResponseWriter, r *http.Request) {
		text, err := os.ReadFile(filepath.Join("testdata", files[r.URL.Path]))
		if err != nil {
			http.Error(w, err.Error(), http.StatusNotFound)
			return
		}
		if r.URL.Path == "/v1/deployments" {
			text = []byte(strings.Replace(string(text), `"JobCreateIndex":10`, `"JobCreateIndex":9`, 1))
		}
		_, _ = w.Write(text)
	})
	return server
}

func TestHolds(t *testing.T) {
	i := newFakeServer(t)
	i.add("web", 2)
	f := newFleet(t, i)
	if hold := readOne(t, f, "web/app").Hold; hold != nil {
		t.Fatalf("initial hold = %+v, want nil", hold)
	}
	i.change("web", func(job *fakeJob) {
		job.deployment = "Deployment is running but requires manual promotion"
		job.allocs = append(job.allocs, &fakeAlloc{id: "c0-canary", desired: "run", client: "running", number: 0, canary: true, created: time.Now(), started: time.Now()})
	})
	reading := readOne(t, f, "web/app")
	if reading.Hold == nil || reading.Hold.Reason != DeploymentActive || !strings.Contains(reading.Hold.Message, "manual promotion") {
		t.Errorf("hold = %+v, want DeploymentActive with Nomad's message", reading.Hold)
	}
	if reading.StatusReplicas != 2 || len(reading.Instances) != 2 {
		t.Errorf("status = %d with %d instances, want 2 without the canary", reading.StatusReplicas, len(reading.Instances))
	}
	i.change("web", func(job *fakeJob) { job.deployment, job.stopped = "", true })
	reading = readOne(t, f, "web/app")
	if reading.Hold == nil || reading.Hold.Reason != JobStopped || reading.SpecReplicas != 2 || reading.StatusReplicas != 0 {
		t.Errorf("hold = %+v, spec = %d, status = %d, want JobStopped and an unchanged count", reading.Hold, reading.SpecReplicas, reading.StatusReplicas)
	}
	var held *targets.HeldError
	if err := f.SetReplicas(t.Context(), ref("web/app"), 3, reading.Version, "r"); !errors.As(err, &held) || held.Hold.Reason != JobStopped {
		t.Errorf("SetReplicas() of a stopped job = %v, want a hold with reason JobStopped", err)
	}
}

func TestUnscalable(t *testing.T) {
	i := newFakeServer(t)
	i.add("web", 1)
	i.add("host", 1).kind = "system"
	i.add("sweep", 1).kind = "sysbatch"
	i.add("nightly", 1).extra = map[string]any{"Periodic": map[string]any{"Spec": "@daily"}}
	// Nomad copies the ParameterizedJob into a dispatched job.
	i.add("form/dispatch-1-a", 1).extra = map[string]any{"ParameterizedJob": map[string]any{"Payload": "required"}, "Dispatched": true}
	f := newFleet(t, i)
	if launched := readOne(t, f, "form%2Fdispatch-1-a/app"); launched.SpecReplicas != 1 {
		t.Errorf("reading of a dispatched job = %+v, want 1 replica", launched)
	}
	for name, want := range map[string]struct {
		class         error
		reason, words string
	}{
		"web/api":     {targets.ErrUnscalable, groupNotFound, `job "web" has no task group "api"; its task groups are "app"`},
		"host/app":    {targets.ErrUnscalable, systemJob, `job "host" is of type "system"`},
		"sweep/app":   {targets.ErrUnscalable, sysBatchJob, `job "sweep" is of type "sysbatch"`},
		"nightly/app": {targets.ErrUnscalable, periodicJob, `job "nightly" is periodic`},
		"nobody/app":  {targets.ErrTargetNotFound, jobNotFound, `no job "nobody" in namespace "default"`},
		"a/b/c/d/e":   {targets.ErrTargetNotFound, "", "must have the form job/group"},
	} {
		err := readAny(t, f, name).Err
		if !errors.Is(err, want.class) || targets.Reason(err) != want.reason || !strings.Contains(err.Error(), want.words) {
			t.Errorf("Snapshot(%s): Err = %v with reason %q, want %v, %q with %q", name, err, targets.Reason(err), want.class, want.reason, want.words)
		}
		err = f.SetReplicas(t.Context(), ref(name), 2, "", "r")
		if !errors.Is(err, want.class) || targets.Reason(err) != want.reason {
			t.Errorf("SetReplicas(%s) = %v with reason %q, want %v, %q", name, err, targets.Reason(err), want.class, want.reason)
		}
	}
}

// TestNotPlaced checks that allocations that cannot be placed are reported with Nomad's reason,
// which takes one call while there are such allocations.
func TestNotPlaced(t *testing.T) {
	i := newFakeServer(t)
	i.add("web", 2)
	i.add("idle", 1)
	f := newFleet(t, i)
	if notices := readOne(t, f, "web/app").Notices; notices != nil {
		t.Errorf("initial notices = %+v, want none", notices)
	}
	i.change("web", func(job *fakeJob) { job.queued, job.full = 3, "memory" })
	i.change("idle", func(job *fakeJob) { job.queued = 1 })
	i.counted()
	refs := []targets.Ref{ref("web/app"), ref("idle/app")}
	readings, err := f.Snapshot(t.Context(), refs)
	if err != nil {
		t.Fatal(err)
	}
	if calls := i.counted()["/v1/evaluations"]; calls != 1 {
		t.Errorf("calls for the reasons = %d, want 1", calls)
	}
	for n, want := range [][]policy.Notice{
		{{Condition: InsufficientCapacity, Reason: ResourcesExhausted, Message: `3 allocations of group "app" are queued: resources exhausted on 1 nodes, dimension "memory" exhausted on 1 nodes`}},
		{{Condition: InsufficientCapacity, Reason: allocationsQueued, Message: `1 allocations of group "app" are queued`}},
	} {
		if diff := cmp.Diff(want, readings[refs[n]].Notices); diff != "" {
			t.Errorf("notices for %s (-want +got):\n%s", refs[n], diff)
		}
	}
	i.mu.Lock()
	i.forbidden["/v1/evaluations"] = true
	i.mu.Unlock()
	if reading := readOne(t, f, "web/app"); len(reading.Notices) != 1 || reading.Notices[0].Reason != allocationsQueued {
		t.Errorf("notices without the reasons = %+v, want one", reading.Notices)
	}
	i.change("web", func(job *fakeJob) { job.stopped = true })
	if notices := readOne(t, f, "web/app").Notices; notices != nil {
		t.Errorf("notices of a stopped job = %+v, want none", notices)
	}
}

// TestSlowScheduler checks that after the count is lowered, surplus instances are Deleting before
// the scheduler acts.
func TestSlowScheduler(t *testing.T) {
	i := newFakeServer(t)
	i.add("web", 4)
	f := newFleet(t, i)
	i.mu.Lock()
	i.lazy = true
	i.mu.Unlock()
	if err := f.SetReplicas(t.Context(), ref("web/app"), 1, readOne(t, f, "web/app").Version, "r"); err != nil {
		t.Fatal(err)
	}
	reading := readOne(t, f, "web/app")
	if reading.SpecReplicas != 1 || reading.StatusReplicas != 1 {
		t.Errorf("spec = %d and status = %d, want 1 and 1", reading.SpecReplicas, reading.StatusReplicas)
	}
	for n, instance := range reading.Instances {
		if first := reading.Locations.At(n).Name == "web.app[0]"; instance.Deleting == first {
			t.Errorf("%s: Deleting = %v, want true for all but the lowest index", reading.Locations.At(n).Name, instance.Deleting)
		}
	}
}

// TestWithoutStore checks that a fleet is read while its store fails, that Problems reports the
// failure, and that the records are stored afterwards.
func TestWithoutStore(t *testing.T) {
	i := newFakeServer(t)
	i.add("web", 2)
	store := &targettest.Store{}
	f := openFleet(t, testConfig(t, i.server.URL), store)
	store.Fail(errors.New("no leader"))
	if reading := readOne(t, f, "web/app"); reading.StatusReplicas != 2 {
		t.Errorf("reading = %+v, want 2 replicas", reading)
	}
	if problems := f.Problems(); len(problems) != 1 || !strings.Contains(problems[0], "no leader") {
		t.Errorf("Problems() = %q, want the store's error", problems)
	}
	store.Fail(nil)
	readOne(t, f, "web/app")
	if stored, err := store.List(t.Context(), shardPrefix); err != nil || len(stored) == 0 || f.Problems() != nil {
		t.Errorf("stored entries = %q, %v with problems %q, want the records", stored, err, f.Problems())
	}
}

func TestStickyReadiness(t *testing.T) {
	i := newFakeServer(t)
	i.add("web", 0).deployed = true
	i.change("web", func(job *fakeJob) { job.count = 2 })
	store := &targettest.Store{}
	f := openFleet(t, testConfig(t, i.server.URL), store)
	first := readOne(t, f, "web/app")
	// A change of the count resets the health of running allocations.
	i.change("web", func(job *fakeJob) { job.count = 3 })
	again := openFleet(t, testConfig(t, i.server.URL), store)
	for _, fleet := range []*Fleet{f, again} {
		reading := readOne(t, fleet, "web/app")
		before := map[string]policy.Instance{}
		for _, instance := range first.Instances {
			before[instance.ID] = instance
		}
		remaining := 0
		for _, instance := range reading.Instances {
			old, ok := before[instance.ID]
			if !ok {
				continue
			}
			remaining++
			if instance.Readiness != policy.ReadinessTrue || !instance.ReadinessChanged.Equal(old.ReadinessChanged) {
				t.Errorf("instance %s: readiness = %v since %v, want ready since %v", instance.ID, instance.Readiness, instance.ReadinessChanged, old.ReadinessChanged)
			}
		}
		if remaining != 2 {
			t.Errorf("remaining instances = %d, want 2", remaining)
		}
	}
	// A restart of the tasks resets the readiness of an allocation.
	i.change("web", func(job *fakeJob) { job.allocs[0].started = time.Now().Add(time.Second) })
	for _, instance := range readOne(t, f, "web/app").Instances {
		if instance.ID == i.jobs["web"].allocs[0].id && instance.Readiness != policy.ReadinessFalse {
			t.Errorf("readiness of a restarted instance = %v, want unready until it is healthy", instance.Readiness)
		}
	}
}

// TestCalls checks that the number of calls in a round does not depend on the number of targets,
// except for one call per changed job.
func TestCalls(t *testing.T) {
	i := newFakeServer(t)
	var refs []targets.Ref
	for n := range 200 {
		id := fmt.Sprintf("job-%d", n)
		i.add(id, 2)
		refs = append(refs, ref(id+"/app"))
	}
	f := newFleet(t, i)
	calls := func() int {
		if _, err := f.Snapshot(t.Context(), refs); err != nil {
			t.Fatal(err)
		}
		total := 0
		for _, n := range i.counted() {
			total += n
		}
		return total
	}
	if got := calls(); got != 204 {
		t.Errorf("calls of the first round = %d, want 3 lists, the nodes and 200 jobs", got)
	}
	if got := calls(); got != 3 {
		t.Errorf("calls of a round without changes = %d, want 3 lists", got)
	}
	for n := range 5 {
		i.change(fmt.Sprintf("job-%d", n), func(job *fakeJob) { job.count++ })
	}
	if got := calls(); got != 8 {
		t.Errorf("calls of a round with 5 changed jobs = %d, want 8", got)
	}
}

func TestWriteErrors(t *testing.T) {
	for _, c := range []struct {
		status int
		body   string
		want   []error
	}{
		{500, "Enforcing job modify index 5: job exists with conflicting job modify index: 9", []error{targets.ErrConflict}},
		{500, "rpc error: Enforcing job modify index 5: job exists with conflicting job modify index: 9", []error{targets.ErrConflict}},
		{400, "job scaling blocked due to active deployment", []error{targets.ErrHeld}},
		{403, "Job registration, dispatch, and scale are disabled by the scheduler configuration", []error{targets.ErrHeld}},
		{400, "group count was less than scaling policy minimum: 0 < 1", []error{targets.ErrOutOfRange}},
		{400, "group count was greater than scaling policy maximum: 9 > 5", []error{targets.ErrOutOfRange}},
		{500, "total count was greater than configured job_max_count: 60000 > 50000", []error{targets.ErrOutOfRange}},
		{400, `task group "x" specified for scaling does not exist in job`, []error{targets.ErrUnscalable}},
		{404, `job "web" not found`, []error{targets.ErrTargetNotFound}},
		{400, "whatever", []error{targets.ErrTransient}},
		{403, "Permission denied", []error{targets.ErrForbidden}},
		{401, "who are you?", []error{targets.ErrForbidden}},
		{500, "No path to region", []error{targets.ErrTransient}},
		{429, "Too Many Requests", []error{targets.ErrThrottled}},
		{500, "No cluster leader", []error{targets.ErrTransient}},
		{500, "leadership lost while committing log", []error{targets.ErrTransient, targets.ErrUnknownOutcome}},
		{502, "<html>Bad Gateway</html>", []error{targets.ErrTransient, targets.ErrUnknownOutcome}},
		{200, "garbled", []error{targets.ErrTransient, targets.ErrUnknownOutcome}},
	} {
		i := newFakeServer(t)
		i.add("web", 1)
		server := newHandler(t, func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPut {
				w.WriteHeader(c.status)
				_, _ = w.Write([]byte(c.body))
				return
			}
			i.ServeHTTP(w, r)
		})
		f := openFleet(t, testConfig(t, server), nil)
		err := f.SetReplicas(t.Context(), ref("web/app"), 2, readOne(t, f, "web/app").Version, "r")
		for _, class := range append([]error{targets.ErrConflict, targets.ErrHeld, targets.ErrOutOfRange, targets.ErrUnscalable, targets.ErrTargetNotFound, targets.ErrForbidden, targets.ErrThrottled, targets.ErrTransient, targets.ErrUnknownOutcome}, c.want...) {
			wanted := slices.Contains(c.want, class)
			if errors.Is(err, class) != wanted {
				t.Errorf("error for response %d %q = %v: class %q = %v, want %v", c.status, c.body, err, class, !wanted, wanted)
			}
		}
	}
}

// TestSilentNode checks that a silent node causes missing samples, an error if there are no
// samples at all, and one call in each pass.
func TestSilentNode(t *testing.T) {
	i := newFakeServer(t)
	i.add("web", 5)
	i.dark["node-1"] = true
	c := testConfig(t, i.server.URL)
	c.MaxConnections = 3 // one at a time
	f := openFleet(t, c, nil)
	readOne(t, f, "web/app")
	i.counted()
	var err error
	wait.Soon(t, "an error of Samples", func() bool {
		_, err = f.Samples(t.Context(), []targets.Ref{ref("web/app")})
		return err != nil
	})
	if !errors.Is(err, targets.ErrTransient) || !strings.Contains(err.Error(), "No path to node") {
		t.Errorf("Samples() = %v, want ErrTransient, because the node does not respond", err)
	}
	if calls := i.counted(); len(calls) > 2 {
		t.Errorf("queried allocations of a silent node = %d, want 1 in each of at most 2 passes", len(calls))
	}
	i.mu.Lock()
	i.dark["node-1"] = false
	i.mu.Unlock()
	wait.Soon(t, "samples", func() bool {
		samples, err := f.Samples(t.Context(), []targets.Ref{ref("web/app")})
		return err == nil && len(samples[ref("web/app")].Instances) == 5
	})
	samples, err := f.Samples(t.Context(), []targets.Ref{ref("web/app")})
	if err != nil {
		t.Fatal(err)
	}
	// The task uses 250 MHz of a core with 2000 MHz. The expected memory is Usage without Cache.
	want := []policy.TaskUsage{{Task: "main", Usage: []policy.Amount{{Resource: "cpu", Milli: 125}, {Resource: "memory", Milli: 90 << 20 * 1000}}}}
	if diff := cmp.Diff(want, samples[ref("web/app")].Instances[0].Tasks); diff != "" {
		t.Errorf("sample (-want +got):\n%s", diff)
	}
}

func TestCheck(t *testing.T) {
	i := newFakeServer(t)
	i.add("web", 1)
	f := newFleet(t, i)
	readOne(t, f, "web/app")
	found, err := f.Check(t.Context())
	want := []string{"connected to Nomad 1.11.2", `has the capabilities list-jobs, read-job, scale-job in namespace "default"`}
	if diff := cmp.Diff(want, found); diff != "" || err != nil {
		t.Errorf("Check() = %v (-want +got):\n%s", err, diff)
	}
	i.forbidden["/v1/job/hpad-check/scale"] = true
	i.forbidden["/v1/nodes"] = true
	found, err = f.Check(t.Context())
	if !errors.Is(err, targets.ErrForbidden) || !strings.Contains(err.Error(), `lacks scale-job in namespace "default", for "web"`) {
		t.Errorf("Check() = %v, want the capability, the namespace and the job", err)
	}
	if len(found) != 2 || !strings.Contains(found[1], "1000 MHz") {
		t.Errorf("Check() = %q, want the effect of unreadable nodes", found)
	}
	if len(i.scaled) != 0 {
		t.Errorf("Check() changed counts: %v", i.scaled)
	}
	i.setHang(true)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := f.Check(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Check() without a response = %v, want DeadlineExceeded", err)
	}
}

func TestWhyNoPlace(t *testing.T) {
	for _, c := range []struct {
		failed        placement
		reason, words string
	}{
		{placement{}, noNodes, "no nodes were eligible for evaluation"},
		{placement{NodesEvaluated: 2}, allocationsQueued, "Nomad returned no reason"},
		{
			placement{NodesEvaluated: 2, NodesFiltered: 2, ConstraintFiltered: map[string]int{"${meta.rack} = a": 2}},
			constraintsFiltered, `constraint "${meta.rack} = a": 2 nodes excluded by filter`,
		},
		{
			placement{NodesEvaluated: 2, NodesFiltered: 1, ClassFiltered: map[string]int{"big": 1}, NodesExhausted: 1, DimensionExhausted: map[string]int{"memory": 1, "cpu": 1}},
			ResourcesExhausted, `class "big": 1 nodes excluded by filter, resources exhausted on 1 nodes, dimension "cpu" exhausted on 1 nodes, dimension "memory" exhausted on 1 nodes`,
		},
		{placement{NodesEvaluated: 2, NodesFiltered: 2}, constraintsFiltered, "Nomad returned no reason"},
		{placement{NodesEvaluated: 2, ConstraintFiltered: map[string]int{"a": 1}}, constraintsFiltered, `constraint "a": 1 nodes excluded by filter`},
		{placement{NodesEvaluated: 2, NodesExhausted: 1, ClassExhausted: map[string]int{"big": 1}}, ResourcesExhausted, `resources exhausted on 1 nodes, class "big" exhausted on 1 nodes`},
		{placement{NodesEvaluated: 2, QuotaExhausted: []string{"memory"}}, quotaExhausted, `quota limit hit ["memory"]`},
	} {
		if reason, words := c.failed.why(); reason != c.reason || words != c.words {
			t.Errorf("why() of %+v = %s, %q, want %s, %q", c.failed, reason, words, c.reason, c.words)
		}
	}
}

// event returns a task event in Nomad's format.
func event(kind, message string, fails bool, at time.Time) string {
	return fmt.Sprintf(`{"Type":%q,"DisplayMessage":%q,"FailsTask":%t,"Time":%d}`, kind, message, fails, at.UnixNano())
}

// TestFailing checks that failed allocations without a replacement are Failed instances and
// excluded from the count, and that a notice contains the cause of failed and crash-looping
// allocations.
func TestFailing(t *testing.T) {
	now := time.Now()
	ended := event("Terminated", "Exit Code: 3", false, now)
	again := event("Restarting", "Task restarting in 4s", false, now)
	long := event("Restarting", "Task restarting in 4s", false, now.Add(-time.Hour))
	given := event("Not Restarting", "Policy allows no restarts", true, now)
	signaled := event("Restart Signaled", "User requested running tasks to restart", false, now)
	type alloc struct{ client, next, events string }
	list := func(events ...string) string {
		return "[" + strings.Join(append([]string{event("Received", "", false, now)}, events...), ",") + "]"
	}
	for _, c := range []struct {
		name   string
		allocs []alloc
		status int32
		failed int
		// reason and message are the expected notice; they are empty if there is none.
		reason, message string
	}{
		{name: "all running", allocs: []alloc{{client: "running"}, {client: "running"}}, status: 2},
		{
			name: "failed", allocs: []alloc{{client: "running"}, {client: "failed", events: list(ended, given)}}, status: 1, failed: 1,
			reason: AllocationsFailed, message: `1 allocations of group "app" failed and have no replacement: web.app[1] (a1) task "main": Exit Code: 3`,
		},
		{
			name: "failed before it started", allocs: []alloc{{client: "failed", events: list(event("Setup Failure", "failed to setup alloc", true, now))}}, failed: 1,
			reason: AllocationsFailed, message: `1 allocations of group "app" failed and have no replacement: web.app[0] (a0) task "main": failed to setup alloc`,
		},
		{
			name: "failed for unknown reasons", allocs: []alloc{{client: "failed"}}, failed: 1,
			reason: AllocationsFailed, message: `1 allocations of group "app" failed and have no replacement: web.app[0] (a0)`,
		},
		{name: "failed and replaced", allocs: []alloc{{client: "failed", next: "other", events: list(ended, given)}, {client: "running"}}, status: 1},
		{
			name: "waiting for a restart", allocs: []alloc{{client: "pending", events: list(ended, long)}}, status: 1,
			reason: TasksRestarting, message: `tasks of 1 allocations of group "app" failed and are restarting: web.app[0] (a0) task "main": Exit Code: 3`,
		},
		{
			name: "restarted", allocs: []alloc{{client: "running", events: list(event("Driver Failure", "no such image", false, now), again)}}, status: 1,
			reason: TasksRestarting, message: `tasks of 1 allocations of group "app" failed and are restarting: web.app[0] (a0) task "main": no such image`,
		},
		{name: "restarted long ago", allocs: []alloc{{client: "running", events: list(ended, long)}}, status: 1},
		{name: "restarted by a user", allocs: []alloc{{client: "running", events: list(signaled, ended, again)}}, status: 1},
		{
			name: "failed after a restart by a user", allocs: []alloc{{client: "running", events: list(signaled, event("Terminated", "Exit Code: 0", false, now), again, ended, again)}}, status: 1,
			reason: TasksRestarting, message: `tasks of 1 allocations of group "app" failed and are restarting: web.app[0] (a0) task "main": Exit Code: 3`,
		},
		{
			name: "many failed and restarting", allocs: []alloc{
				{client: "failed", events: list(ended, given)},
				{client: "running", events: list(ended, again)},
				{client: "failed", events: list(ended, given)},
				{client: "failed", events: list(ended, given)},
			}, status: 1, failed: 3,
			reason: AllocationsFailed,
			message: `3 allocations of group "app" failed and have no replacement, and tasks of 1 other allocations are restarting: web.app[0] (a0) task "main": Exit Code: 3; ` +
				`web.app[1] (a1) task "main": Exit Code: 3; web.app[2] (a2) task "main": Exit Code: 3; and more`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			i := newFakeServer(t)
			i.add("web", 0)
			i.mu.Lock()
			i.lazy = true
			i.mu.Unlock()
			i.change("web", func(job *fakeJob) {
				job.count = len(c.allocs)
				for n, alloc := range c.allocs {
					job.allocs = append(job.allocs, &fakeAlloc{
						id: fmt.Sprintf("a%d", n), desired: "run", client: alloc.client, number: n, created: now, started: now, next: alloc.next, events: alloc.events,
					})
				}
			})
			reading := readOne(t, newFleet(t, i), "web/app")
			failed := 0
			for _, instance := range reading.Instances {
				if instance.Phase == policy.PhaseFailed && !instance.Deleting {
					failed++
				}
			}
			if reading.SpecReplicas != int32(len(c.allocs)) || reading.StatusReplicas != c.status || failed != c.failed {
				t.Errorf("spec = %d, status = %d and failed instances = %d, want %d, %d and %d", reading.SpecReplicas, reading.StatusReplicas, failed, len(c.allocs), c.status, c.failed)
			}
			var want []policy.Notice
			if c.reason != "" {
				want = []policy.Notice{{Condition: AllocationsFailing, Reason: c.reason, Message: c.message}}
			}
			if diff := cmp.Diff(want, reading.Notices); diff != "" {
				t.Errorf("notices (-want +got):\n%s", diff)
			}
		})
	}
}

// TestFinishedWork checks that only dead jobs and batch jobs with finished work are held.
func TestFinishedWork(t *testing.T) {
	runs := func() *fakeAlloc { return &fakeAlloc{desired: "run", client: "running"} }
	complete := func() *fakeAlloc { return &fakeAlloc{desired: "run", client: "complete"} }
	for name, c := range map[string]struct {
		kind, status string
		count        int
		allocs       []*fakeAlloc
		want         string
	}{
		"batch, all complete":                {"batch", "dead", 3, []*fakeAlloc{complete(), complete(), complete()}, AllocationsComplete},
		"batch, some complete":               {"batch", "running", 3, []*fakeAlloc{complete(), runs(), runs()}, AllocationsComplete},
		"batch, complete in another version": {"batch", "running", 2, []*fakeAlloc{{desired: "run", client: "complete"}, {desired: "run", client: "running", version: 9}}, AllocationsComplete},
		"batch, none complete":               {"batch", "running", 2, []*fakeAlloc{runs(), runs()}, ""},
		"batch, scaled in":                   {"batch", "running", 1, []*fakeAlloc{runs(), {desired: "stop", client: "complete"}}, ""},
		"batch, some failed":                 {"batch", "running", 2, []*fakeAlloc{runs(), {desired: "run", client: "failed"}}, ""},
		"batch, allocations collected":       {"batch", "dead", 3, nil, jobDead},
		"batch, all failed":                  {"batch", "dead", 1, []*fakeAlloc{{desired: "run", client: "failed"}}, jobDead},
		"batch, scaled to zero":              {"batch", "dead", 0, []*fakeAlloc{{desired: "stop", client: "complete"}}, ""},
		"service, some complete":             {"service", "running", 2, []*fakeAlloc{complete(), runs()}, ""},
		"service, all complete":              {"service", "dead", 2, []*fakeAlloc{complete(), complete()}, jobDead},
		"service, all failed":                {"service", "dead", 1, []*fakeAlloc{{desired: "run", client: "failed"}}, jobDead},
		"service, scaled to zero":            {"service", "dead", 0, []*fakeAlloc{{desired: "stop", client: "complete"}}, ""},
		"service, not placed":                {"service", "pending", 2, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			i := newFakeServer(t)
			i.add("web", 0)
			listedBy(i, c.allocs...)
			i.change("web", func(job *fakeJob) { job.kind, job.status, job.count = c.kind, c.status, c.count })
			f := newFleet(t, i)
			reading := readOne(t, f, "web/app")
			got := ""
			if reading.Hold != nil {
				got = reading.Hold.Reason
			}
			if got != c.want || int(reading.SpecReplicas) != c.count {
				t.Errorf("count = %d, hold = %+v, want %d and reason %q", reading.SpecReplicas, reading.Hold, c.count, c.want)
			}
			if err := f.SetReplicas(t.Context(), ref("web/app"), 5, reading.Version, "test"); errors.Is(err, targets.ErrHeld) != (c.want == AllocationsComplete) {
				t.Errorf("SetReplicas() = %v", err)
			}
		})
	}
}

// TestFinishesBeforeWrite checks that a write is held if work finishes after the reading, and
// that allocations are listed only if the job has changed.
func TestFinishesBeforeWrite(t *testing.T) {
	i := newFakeServer(t)
	i.add("web", 0).kind = "batch"
	listedBy(i, &fakeAlloc{id: "one0", desired: "run", client: "running"}, &fakeAlloc{id: "two0", desired: "run", client: "running"})
	i.change("web", func(job *fakeJob) { job.count = 2 })
	f := newFleet(t, i)
	reading := readOne(t, f, "web/app")
	i.mu.Lock()
	i.jobs["web"].allocs[0].client = "complete"
	i.mu.Unlock()
	err := f.SetReplicas(t.Context(), ref("web/app"), 5, reading.Version, "test")
	if held, ok := errors.AsType[*targets.HeldError](err); !ok || held.Hold.Reason != AllocationsComplete || len(i.scaled) != 0 {
		t.Errorf("SetReplicas() = %v after %d writes, want a HeldError and no write", err, len(i.scaled))
	}
	i.counted()
	for range 3 {
		if reading := readOne(t, f, "web/app"); reading.Hold == nil || reading.Hold.Reason != AllocationsComplete {
			t.Errorf("hold = %+v, want %s", reading.Hold, AllocationsComplete)
		}
	}
	if calls := i.counted()["/v1/job/web/allocations"]; calls != 1 {
		t.Errorf("lists of allocations = %d, want 1", calls)
	}
}

func TestEnvironment(t *testing.T) {
	t.Setenv("NOMAD_ADDR", "https://nomad.example:4646")
	t.Setenv("NOMAD_REGION", "eu")
	t.Setenv("NOMAD_NAMESPACE", "team")
	t.Setenv("NOMAD_TOKEN", "secret")
	c := &Config{}
	c.SetDefaults()
	if c.Region != "eu" {
		t.Errorf("region = %q, want the value of the environment", c.Region)
	}
	c = &Config{Region: "us"}
	c.SetDefaults()
	want := &Config{
		Address: "https://nomad.example:4646", Region: "us", Namespace: "team", Timeout: 10 * time.Second, MaxConnections: 50,
		ResourceInterval: 15 * time.Second, Memory: memoryUsageCache, Readiness: readinessHealth,
		DiscoverNamespaces: []string{"team"},
	}
	want.LabelLimits.SetDefaults()
	if diff := cmp.Diff(want, c); diff != "" {
		t.Errorf("SetDefaults() (-want +got):\n%s", diff)
	}
	connection, err := newConnection(c, nil)
	if err != nil {
		t.Fatal(err)
	}
	if token, err := connection.currentToken(); token != "secret" || err != nil {
		t.Errorf("token = %q, %v, want the value of the environment", token, err)
	}
}

func TestValidate(t *testing.T) {
	for name, c := range map[string]struct {
		change func(c *Config)
		want   string
	}{
		"no scheme":            {func(c *Config) { c.Address = "127.0.0.1:4646" }, "address"},
		"path":                 {func(c *Config) { c.Address = "http://127.0.0.1/nomad" }, "address"},
		"credentials":          {func(c *Config) { c.Address = "http://me:secret@127.0.0.1:4646" }, "address"},
		"all namespaces":       {func(c *Config) { c.Namespace = "*" }, "namespace"},
		"nameless credentials": {func(c *Config) { c.BasicAuth = &httpclient.BasicAuth{} }, "basic_auth.username"},
		"no key":               {func(c *Config) { c.TLS.CertFile = "c.pem" }, "tls.key_file"},
		"no certificate":       {func(c *Config) { c.TLS.KeyFile = "k.pem" }, "tls.cert_file"},
		"no time":              {func(c *Config) { c.Timeout = -1 }, "timeout"},
		"many connections":     {func(c *Config) { c.MaxConnections = 101 }, "max_connections"},
		"short interval":       {func(c *Config) { c.ResourceInterval = time.Millisecond }, "resource_interval"},
		"memory":               {func(c *Config) { c.Memory = "all" }, "nomad_memory"},
		"readiness":            {func(c *Config) { c.Readiness = "yes" }, "readiness"},
		"nameless namespace":   {func(c *Config) { c.DiscoverNamespaces = []string{"a", ""} }, "discover_namespaces[1]"},
		"* and another":        {func(c *Config) { c.DiscoverNamespaces = []string{"*", "a"} }, "discover_namespaces[0]"},
		"twice":                {func(c *Config) { c.DiscoverNamespaces = []string{"a", "a"} }, "discover_namespaces[1]"},
	} {
		config := testConfig(t, "http://127.0.0.1:4646")
		c.change(config)
		errs := config.Validate()
		if len(errs) != 1 || errs[0].Field != c.want {
			t.Errorf("%s: Validate() = %v, want one error for %s", name, errs, c.want)
		}
		for _, fieldErr := range errs {
			if strings.Contains(fieldErr.Error(), "secret") {
				t.Errorf("%s: error %v contains a secret", name, fieldErr)
			}
		}
	}
}

func TestUnusableFiles(t *testing.T) {
	for name, change := range map[string]func(c *Config){
		"/no/ca.pem":   func(c *Config) { c.TLS.CAFile = "/no/ca.pem" },
		"/no/cert.pem": func(c *Config) { c.TLS.CertFile, c.TLS.KeyFile = "/no/cert.pem", "/no/key.pem" },
		"/no/password": func(c *Config) { c.BasicAuth = &httpclient.BasicAuth{Username: "me", PasswordFile: "/no/password"} },
	} {
		c := testConfig(t, "https://127.0.0.1:4646")
		change(c)
		if _, err := New("prod", c, targets.Env{}); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("New() with a missing %s = %v, want an error with its name", name, err)
		}
	}
}

func TestTargetName(t *testing.T) {
	for want, target := range map[string]Target{
		"web/app":              {Job: "web", Group: "app", Namespace: "default"},
		"team/web/app":         {Job: "web", Group: "app", Namespace: "team"},
		"eu/default/web/app":   {Job: "web", Group: "app", Namespace: "default", Region: "eu"},
		"a%2Fb%252F/app%25":    {Job: "a/b%2F", Group: "app%", Namespace: "default"},
		"team/dispatch%2F1/go": {Job: "dispatch/1", Group: "go", Namespace: "team"},
	} {
		if got := target.Name(); got != want {
			t.Errorf("Name() of %+v = %q, want %q", target, got, want)
		}
		if back, err := parseName(want); err != nil || back != target {
			t.Errorf("parseName(%q) = %+v, %v, want %+v", want, back, err, target)
		}
	}
}

// newHandler serves a handler and returns its address.
func newHandler(t testing.TB, handle http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(handle)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return server.URL
}
