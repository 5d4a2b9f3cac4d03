package nomad

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/targettest"
)

// TestDispatch checks that the count of a parameterized job is the number of its children, which hpad
// dispatches with the configured payload and meta, and which end by themselves.
func TestDispatch(t *testing.T) {
	i := newFakeServer(t)
	i.addParameterized("encode")
	i.addParameterized("encode-2") // its children have the same prefix
	config := testConfig(t, i.server.URL)
	file := filepath.Join(t.TempDir(), "payload")
	if err := os.WriteFile(file, []byte("work"), 0o600); err != nil {
		t.Fatal(err)
	}
	config.Dispatch = map[string]Dispatch{"encode": {PayloadFile: file, Meta: map[string]string{"queue": "a"}}, "default/encode-2": {Payload: "other"}}
	f := openFleet(t, config, &targettest.Store{})
	for _, name := range []string{"encode/app", "encode-2/app"} {
		if got := readOne(t, f, name); got.SpecReplicas != 0 || !got.Finite || len(got.Instances) != 0 || got.Hold != nil {
			t.Errorf("reading of %s without children = %+v", name, got)
		}
	}
	if err := f.SetReplicas(t.Context(), ref("encode-2/app"), 1, "0", "r"); err != nil {
		t.Fatal(err)
	}
	if err := f.SetReplicas(t.Context(), ref("encode/app"), 3, "0", "r"); err != nil {
		t.Fatal(err)
	}
	children := i.children("encode")
	reading := readOne(t, f, "encode/app")
	if reading.SpecReplicas != 3 || reading.StatusReplicas != 3 || *reading.Min != 3 || reading.Max != nil || reading.Version != "3" || len(reading.Instances) != 3 {
		t.Errorf("reading = %+v, want 3 children", reading)
	}
	var names []string
	for n := range reading.Instances {
		names = append(names, reading.NameOf(n))
		if instance := &reading.Instances[n]; instance.Phase != policy.PhaseRunning || instance.Readiness != policy.ReadinessTrue || instance.Deleting || len(instance.Tasks) != 1 {
			t.Errorf("instance = %+v, want it running and ready", instance)
		}
	}
	if slices.Sort(names); !slices.Equal(names, children) || !strings.HasPrefix(names[0], "encode/dispatch-hpad-") {
		t.Errorf("names = %q, want the children %q", names, children)
	}
	if got := i.dispatched[1]; string(got.Payload) != "work" || got.Meta["queue"] != "a" || string(i.dispatched[0].Payload) != "other" {
		t.Errorf("dispatched %+v, want the configured payload and meta", i.dispatched)
	}
	i.end(children[0])
	if got := readOne(t, f, "encode/app"); got.SpecReplicas != 2 || len(got.Instances) != 2 {
		t.Errorf("after the end of a child: reading = %+v, want 2 children", got)
	}
}

// TestDispatchWrites checks the writes of a parameterized job whose children changed since the reading.
func TestDispatchWrites(t *testing.T) {
	for name, test := range map[string]struct {
		act     func(i *fakeServer, f *Fleet)
		n       int32
		version string
		want    error
		reason  string
		alive   int
	}{
		"a child has ended":  {func(i *fakeServer, _ *Fleet) { i.end(i.children("encode")[0]) }, 4, "2", nil, "", 3}, // rate limits apply to the count that was read
		"an external writer": {func(_ *fakeServer, f *Fleet) { _ = f.SetReplicas(t.Context(), ref("encode/app"), 3, "2", "") }, 4, "2", targets.ErrConflict, "", 3},
		"fewer children":     {func(*fakeServer, *Fleet) {}, 1, "2", targets.ErrOutOfRange, "", 2},
		"enough have ended":  {func(i *fakeServer, _ *Fleet) { i.end(i.children("encode")[0]) }, 1, "2", nil, "", 1},
		"without a version":  {func(*fakeServer, *Fleet) {}, 5, "", nil, "", 5},
		"a stopped job":      {func(i *fakeServer, _ *Fleet) { i.change("encode", func(j *fakeJob) { j.stopped = true }) }, 4, "2", targets.ErrHeld, "", 2},
		"a missing payload": {func(i *fakeServer, _ *Fleet) {
			i.change("encode", func(j *fakeJob) { j.extra = map[string]any{"PayloadRequired": true} })
		}, 4, "2", targets.ErrUnscalable, dispatchRejected, 2},
		"a missing right": {func(i *fakeServer, _ *Fleet) { i.forbidden["/v1/job/encode/dispatch"] = true }, 4, "2", targets.ErrForbidden, "", 2},
		"an unreadable file": {func(_ *fakeServer, f *Fleet) {
			f.config.Dispatch = map[string]Dispatch{"encode": {PayloadFile: "/missing"}}
		}, 4, "2", os.ErrNotExist, "", 2},
	} {
		t.Run(name, func(t *testing.T) {
			i := newFakeServer(t)
			i.addParameterized("encode")
			f := newFleet(t, i)
			if err := f.SetReplicas(t.Context(), ref("encode/app"), 2, "0", "r"); err != nil {
				t.Fatal(err)
			}
			test.act(i, f)
			err := f.SetReplicas(t.Context(), ref("encode/app"), test.n, test.version, "r")
			if !errors.Is(err, test.want) || targets.Reason(err) != test.reason {
				t.Errorf("SetReplicas() = %v with reason %q, want %v, %q", err, targets.Reason(err), test.want, test.reason)
			}
			if got := len(i.children("encode")); got != test.alive {
				t.Errorf("%d children, want %d", got, test.alive)
			}
		})
	}
}

// TestLostDispatch checks that a dispatch whose response is lost is repeated with the same token,
// immediately, by the next write, and by the next hpad.
func TestLostDispatch(t *testing.T) {
	i, store := newFakeServer(t), &targettest.Store{}
	i.addParameterized("encode")
	f := openFleet(t, testConfig(t, i.server.URL), store)
	i.lose = 1
	if err := f.SetReplicas(t.Context(), ref("encode/app"), 2, "0", "r"); err != nil {
		t.Errorf("with one lost response: SetReplicas() = %v", err)
	}
	i.lose = 2
	if err := f.SetReplicas(t.Context(), ref("encode/app"), 4, "2", "r"); !errors.Is(err, targets.ErrUnknownOutcome) {
		t.Errorf("with two lost responses: SetReplicas() = %v, want an unknown outcome", err)
	}
	if got := readOne(t, f, "encode/app").SpecReplicas; got != 3 {
		t.Fatalf("%d children, want 3", got)
	}
	f = openFleet(t, testConfig(t, i.server.URL), store)
	// A reading that does not contain the child yet does not lead to a second one.
	if err := f.SetReplicas(t.Context(), ref("encode/app"), 4, "3", "r"); err != nil {
		t.Error(err)
	}
	if got := len(i.dispatched); got != 4 {
		t.Errorf("%d children were created, want 4", got)
	}
	if err := f.SetReplicas(t.Context(), ref("encode/app"), 5, "4", "r"); err != nil || len(i.dispatched) != 5 {
		t.Errorf("the next write: SetReplicas() = %v, %d children created, want 5", err, len(i.dispatched))
	}
}

// TestQueuedChildren checks that a child without an allocation is a pending instance, and that a
// queued allocation is reported.
func TestQueuedChildren(t *testing.T) {
	i := newFakeServer(t)
	i.addParameterized("encode")
	f := newFleet(t, i)
	if err := f.SetReplicas(t.Context(), ref("encode/app"), 2, "0", "r"); err != nil {
		t.Fatal(err)
	}
	id := i.children("encode")[0]
	i.change(id, func(job *fakeJob) { job.allocs, job.count, job.queued, job.status = nil, 0, 1, "pending" })
	reading := readOne(t, f, "encode/app")
	if reading.SpecReplicas != 2 || len(reading.Instances) != 2 || len(reading.Notices) != 1 || reading.Notices[0].Condition != InsufficientCapacity {
		t.Errorf("reading = %+v, want 2 instances and a notice", reading)
	}
	if last := reading.Instances[1]; last.Phase != policy.PhasePending || time.Since(last.ReadinessChanged) > time.Hour || last.ID != id || reading.NameOf(1) != id {
		t.Errorf("instance = %+v, want the pending child %s", last, id)
	}
}

// TestDiscoverParameterized checks that a parameterized job is discovered, and its children are not.
func TestDiscoverParameterized(t *testing.T) {
	i := newFakeServer(t)
	i.addParameterized("encode")
	i.jobs["encode"].meta = map[string]string{"hpad.enable": "true", "hpad.max": "5"}
	i.add("encode/dispatch-1-a", 1).parent = "encode"
	i.jobs["encode/dispatch-1-a"].meta = i.jobs["encode"].meta
	config := testConfig(t, i.server.URL)
	config.Discover = true
	found, err := openFleet(t, config, nil).Discover(t.Context())
	if err != nil || len(found) != 1 || found[0].Name != "encode/app" {
		t.Errorf("Discover() = %+v, %v, want encode/app", found, err)
	}
}

// TestDispatchSettings checks the validation of the table dispatch.
func TestDispatchSettings(t *testing.T) {
	config := testConfig(t, "http://127.0.0.1:1")
	config.Dispatch = map[string]Dispatch{"a": {Payload: "x", PayloadFile: "/y"}, "b": {Payload: strings.Repeat("x", maxPayload+1)}, "c": {Payload: "x"}}
	var fields []string
	for _, e := range config.Validate() {
		fields = append(fields, e.Field)
	}
	if want := []string{"dispatch.a.payload_file", "dispatch.b.payload"}; !slices.Equal(fields, want) {
		t.Errorf("invalid fields = %q, want %q", fields, want)
	}
}
