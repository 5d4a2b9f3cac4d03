package adapter

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/targettest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// texts is a transport that returns the JSON texts of an adapter's responses, by call.
type texts struct {
	of       map[Call]string
	errs     map[Call]error
	requests []Request
	closed   bool
}

func (t *texts) Call(_ context.Context, request *Request) (*Response, error) {
	t.requests = append(t.requests, *request)
	if err := t.errs[request.Call]; err != nil {
		return nil, Lost(request, err)
	}
	return Decode([]byte(t.of[request.Call]))
}

func (t *texts) Close() error {
	t.closed = true
	return nil
}

// calls returns the calls so far.
func (t *texts) calls() (calls []Call) {
	for _, request := range t.requests {
		calls = append(calls, request.Call)
	}
	return calls
}

const described = `{"protocol": 1, "name": "test 1.0", "calls": ["samples", "remove", "discover"]}`

// open returns a fleet "f" with an adapter, which has the given responses in addition to Describe.
func open(t *testing.T, of map[Call]string) (*Fleet, *texts) {
	t.Helper()
	adapter := &texts{of: map[Call]string{Describe: described, Scale: "{}", Remove: "{}"}, errs: map[Call]error{}}
	maps.Copy(adapter.of, of)
	config := &Common{Timeout: time.Second, ResourceInterval: time.Second}
	f := NewFleet("f", config, adapter, targets.Env{Store: &targettest.Store{}})
	t.Cleanup(func() {
		if err := f.Close(); err != nil || !adapter.closed {
			t.Errorf("Close() = %v, transport closed: %v", err, adapter.closed)
		}
	})
	return f, adapter
}

var web = targets.Ref{Fleet: "f", Name: "web"}

// read reads the target "web" whose state is a text.
func read(t *testing.T, f *Fleet, adapter *texts, state string) targets.Reading {
	t.Helper()
	adapter.of[Snapshot] = `{"targets": {"web": ` + state + `, "other": {"count": 7}}}`
	other := targets.Ref{Fleet: "f", Name: "other"}
	readings, err := f.Snapshot(t.Context(), []targets.Ref{web, other})
	if err != nil {
		t.Fatalf("Snapshot() with %s = %v", state, err)
	}
	if readings[other].SpecReplicas != 7 || readings[other].Err != nil {
		t.Errorf("with %s, the reading of another target is %+v", state, readings[other])
	}
	return readings[web]
}

// TestInvalidTarget checks that an invalid target is a failed reading of this target alone, and
// that the error names the field.
func TestInvalidTarget(t *testing.T) {
	f, adapter := open(t, nil)
	long := strings.Repeat("x", 513)
	for state, want := range map[string]string{
		`{}`:                        "count is missing",
		`{"count": -1}`:             "count is -1",
		`{"count": "3"}`:            `field "/count" must not be a JSON string`,
		`{"count": 3.5}`:            `field "/count"`,
		`{"count": 3000000000}`:     `field "/count"`,
		`{"count": 1, "counts": 2}`: `unknown field "/counts"`,
		`7`:                         "must not be a JSON number",
		`{"count": 1, "version": "` + long + `"}`:                                          "version has more than 512 bytes",
		`{"count": 1, "instances": [{}]}`:                                                  "instances[0].id is missing",
		`{"count": 1, "instances": [{"id": "a"}, {"id": "a"}]}`:                            `instances[1].id: "a" occurs twice`,
		`{"count": 1, "instances": [{"id": "a", "phase": "Running"}]}`:                     `instances[0].phase: "Running" is not a phase`,
		`{"count": 1, "instances": [{"id": "a", "redy": true}]}`:                           `unknown field "/instances/0/redy"`,
		`{"count": 1, "instances": [{"id": "a", "started_at": "now"}]}`:                    `field "/instances/0/started_at"`,
		`{"count": 1, "instances": [{"id": "a", "ports": {"": 0}}]}`:                       "instances[0].ports.: 0 is not a port",
		`{"count": 1, "instances": [{"id": "a", "requests": {"cpu": "many"}}]}`:            "instances[0].requests.cpu: ",
		`{"count": 1, "instances": [{"id": "a", "limits": {"cpu": "-1"}}]}`:                "instances[0].limits.cpu: -1 is negative",
		`{"count": 1, "instances": [{"id": "a", "labels": {"a": "` + long + long + `"}}]}`: "instances[0].labels: ",
		`{"count": 1, "hold": {"reason": "no deploys", "message": ""}}`:                    `hold.reason: "no deploys"`,
		`{"count": 1, "notices": [{"condition": "", "reason": "A", "message": ""}]}`:       "notices[0]: ",
		`{"error": {"code": "oops", "message": ""}}`:                                       `error.code: "oops" is not an error code`,
		`{"error": {"code": "partial", "message": ""}}`:                                    "error.reached: ",
		`{"error": {"code": "held", "message": "", "reason": "a b"}}`:                      "error.reason: ",
		`{"error": {"code": "throttled", "message": "", "retry_after": -1}}`:               "error.retry_after: ",
	} {
		got := read(t, f, adapter, state).Err
		if !errors.Is(got, targets.ErrTransient) || !strings.Contains(got.Error(), want) || !strings.Contains(got.Error(), `target "web": invalid response: `) || len(got.Error()) > 500 {
			t.Errorf("%.80s: %v, want an ErrTransient with %q", state, got, want)
		}
	}
	adapter.of[Snapshot] = `{"targets": {}}`
	readings, err := f.Snapshot(t.Context(), []targets.Ref{web})
	if got := readings[web].Err; err != nil || !errors.Is(got, targets.ErrTransient) || !strings.Contains(got.Error(), "lacks this target") {
		t.Errorf("a response without the target = %v, %v, want a failed reading", got, err)
	}
}

// TestErrorCodes checks the classes of errors from adapters.
func TestErrorCodes(t *testing.T) {
	for code, class := range classes {
		text := fmt.Sprintf(`{"code": %q, "message": "the cause", "reached": 2, "reason": "SomeReason"}`, code)
		f, adapter := open(t, map[Call]string{Scale: `{"error": ` + text + `}`})
		got := read(t, f, adapter, `{"error": `+text+`}`)
		if !errors.Is(got.Err, class) || !strings.Contains(got.Err.Error(), "the cause") || errors.Is(got.Err, targets.ErrUnknownOutcome) {
			t.Errorf("%s in a snapshot: %v, want %v", code, got.Err, class)
		}
		err := f.SetReplicas(t.Context(), web, 3, "1/a", "test")
		if !errors.Is(err, class) || !strings.Contains(err.Error(), `scale target "web" of fleet "f" to 3 replicas: call "scale": `) {
			t.Errorf("%s of a write: %v, want %v", code, err, class)
		}
		if unknown := errors.Is(err, targets.ErrUnknownOutcome); unknown != (code == Failed) {
			t.Errorf("%s of a write: %v, unknown outcome: %v", code, err, unknown)
		}
		if held, ok := errors.AsType[*targets.HeldError](err); ok && held.Hold.Reason != "SomeReason" || !ok && targets.Reason(err) != "SomeReason" {
			t.Errorf("%s of a write: the reason of %v is lost", code, err)
		}
	}
}

// TestOptionalFields checks the readings of adapters that return little.
func TestOptionalFields(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, adapter := open(t, nil)
		bare := read(t, f, adapter, `{"count": 3}`)
		if bare.Err != nil || bare.SpecReplicas != 3 || bare.StatusReplicas != 3 || bare.Instances != nil {
			t.Errorf("reading of a count = %+v", bare)
		}
		if none := read(t, f, adapter, `{"count": 3, "instances": []}`); none.StatusReplicas != 0 {
			t.Errorf("reading without running instances = %+v", none)
		}
		const state = `{"count": 2, "instances": [{"id": "a"}, {"id": "b", "ready": false}, {"id": "c", "terminating": true}, {"id": "d", "phase": "failed"}]}`
		first := time.Now()
		read(t, f, adapter, state)
		time.Sleep(time.Minute)
		r := read(t, f, adapter, state)
		if r.StatusReplicas != 2 {
			t.Errorf("StatusReplicas = %d, want 2", r.StatusReplicas)
		}
		a, b := r.Instances[0], r.Instances[1]
		if a.Phase != policy.PhaseRunning || a.Readiness != policy.ReadinessTrue || !a.StartedAt.Equal(first) || !a.ReadinessChanged.Equal(first) {
			t.Errorf("instance without details = %+v, want it running and ready since %v", a, first)
		}
		if why := r.Locations.At(1).UnreadyReason; b.Readiness != policy.ReadinessFalse || why == "" {
			t.Errorf("instance = %+v with the reason %q, want it unready", b, why)
		}
		turned := time.Now()
		if b := read(t, f, adapter, strings.Replace(state, `"ready": false`, `"ready": true`, 1)).Instances[1]; !b.ReadinessChanged.Equal(turned) || !b.StartedAt.Equal(first) {
			t.Errorf("instance that became ready at %v = %+v", turned, b)
		}
	})
}

// TestCompleteTarget checks that all fields reach the reading.
func TestCompleteTarget(t *testing.T) {
	f, adapter := open(t, nil)
	r := read(t, f, adapter, `{
		"count": 1, "version": "v/1", "min": 1, "max": 9, "hold": {"message": "deploying", "until": "2026-01-02T03:04:05Z"},
		"notices": [{"condition": "QuotaExceeded", "reason": "Quota", "message": "a\nb"}, {"condition": "QuotaExceeded", "reason": "Again", "message": ""}],
		"instances": [{
			"id": "a", "name": "web-a", "node": "n", "phase": "running", "ready": true, "started_at": "2026-01-01T00:00:00Z",
			"ready_changed": "2026-01-01T00:01:00Z", "addresses": ["10.0.0.1"], "ports": {"http": 80}, "labels": {"a": "b"},
			"requests": {"cpu": "500m"}, "limits": {"memory": "1Gi"}, "protected": true}]}`)
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	want := targets.Reading{
		SpecReplicas: 1, StatusReplicas: 1, Version: "1/v/1", Min: new(int32(1)), Max: new(int32(9)), Observed: r.Observed,
		Hold:    &policy.Hold{Reason: "AdapterHold", Message: "deploying", Until: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)},
		Notices: []policy.Notice{{Condition: "QuotaExceeded", Reason: "Quota", Message: "a b"}},
		Instances: []policy.Instance{{
			ID: "a", Name: "web-a", Phase: policy.PhaseRunning, Readiness: policy.ReadinessTrue, StartedAt: start, ReadinessChanged: start.Add(time.Minute),
			Tasks: []policy.Task{{Name: "web", Requests: []policy.Amount{{Resource: "cpu", Milli: 500}}, RequestHint: r.Instances[0].Tasks[0].RequestHint}},
		}},
		Locations: targets.LocationList{{
			Name: "web-a", Node: "n", Addresses: []string{"10.0.0.1"}, Ports: targets.Ports{{Label: "http", Number: 80}}, Labels: map[string]string{"a": "b"},
			Limits: []policy.Amount{{Resource: "memory", Milli: 1 << 30 * 1000}}, Protected: true,
		}},
	}
	if diff := cmp.Diff(want, r); diff != "" {
		t.Errorf("reading (-want +got):\n%s", diff)
	}
}

// TestWithoutVersion checks that hpad compares the count itself if the adapter has no version.
func TestWithoutVersion(t *testing.T) {
	for _, test := range []struct {
		state string
		to    int32
		want  error
		calls []Call
	}{
		{`{"count": 2}`, 3, nil, []Call{Snapshot, Scale}},
		{`{"count": 2}`, 2, nil, []Call{Snapshot}},
		{`{"count": 5}`, 3, targets.ErrConflict, []Call{Snapshot}},
		{`{"count": 2, "hold": {"message": "deploying"}}`, 3, targets.ErrHeld, []Call{Snapshot}},
		{`{"error": {"code": "not_found", "message": ""}}`, 3, targets.ErrTargetNotFound, []Call{Snapshot}},
	} {
		f, adapter := open(t, nil)
		version := read(t, f, adapter, `{"count": 2}`).Version
		adapter.of[Snapshot], adapter.requests = `{"targets": {"web": `+test.state+`}}`, nil
		if err := f.SetReplicas(t.Context(), web, test.to, version, "load"); !errors.Is(err, test.want) || (err == nil) != (test.want == nil) {
			t.Errorf("SetReplicas(%d) with the state %s = %v, want %v", test.to, test.state, err, test.want)
		}
		if diff := cmp.Diff(test.calls, adapter.calls()); diff != "" {
			t.Errorf("SetReplicas(%d) with the state %s: calls (-want +got):\n%s", test.to, test.state, diff)
		}
	}
}

// TestRequests checks the contents of requests.
func TestRequests(t *testing.T) {
	f, adapter := open(t, nil)
	version := read(t, f, adapter, `{"count": 2, "version": "17"}`).Version
	if err := f.SetReplicas(t.Context(), web, 3, version, "load"); err != nil {
		t.Fatal(err)
	}
	if err := f.Remove(t.Context(), web, []string{"a"}, version, "drained"); err != nil {
		t.Fatal(err)
	}
	two, three := int32(2), int32(3)
	want := []Request{
		{Call: Describe},
		{Call: Snapshot, Targets: []string{"other", "web"}},
		{Call: Scale, Target: "web", From: &two, To: &three, Version: "17", Reason: "load"},
		{Call: Remove, Target: "web", From: &two, Instances: []string{"a"}, Version: "17", Reason: "drained"},
	}
	ids := map[string]bool{}
	for i := range adapter.requests {
		ids[adapter.requests[i].ID] = true
		want[i].Protocol, want[i].ID = 1, adapter.requests[i].ID
	}
	if diff := cmp.Diff(want, adapter.requests); diff != "" || len(ids) != len(want) {
		t.Errorf("requests with the IDs %v (-want +got):\n%s", ids, diff)
	}
	for _, name := range []string{"", "-v", "a\nb", strings.Repeat("x", 513)} {
		if err := f.SetReplicas(t.Context(), targets.Ref{Fleet: "f", Name: name}, 3, "", ""); !errors.Is(err, targets.ErrTargetNotFound) {
			t.Errorf("SetReplicas() of %q = %v, want ErrTargetNotFound", name, err)
		}
	}
}

// TestDescribe checks that hpad describes an adapter again after a failure, and rejects other
// versions and unsupported calls.
func TestDescribe(t *testing.T) {
	f, adapter := open(t, map[Call]string{Snapshot: `{"targets": {"web": {"count": 1}}}`})
	for _, fail := range []bool{false, false, true, false} {
		adapter.errs[Snapshot] = nil
		if fail {
			adapter.errs[Snapshot] = errors.New("lost")
		}
		if _, err := f.Snapshot(t.Context(), []targets.Ref{web}); (err != nil) != fail || errors.Is(err, targets.ErrUnknownOutcome) {
			t.Errorf("Snapshot() = %v", err)
		}
	}
	if diff := cmp.Diff([]Call{Describe, Snapshot, Snapshot, Snapshot, Describe, Snapshot}, adapter.calls()); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	if sentences, err := f.Check(t.Context()); err != nil || len(sentences) != 1 || sentences[0] != `the adapter "test 1.0" supports samples remove discover` {
		t.Errorf("Check() = %q, %v", sentences, err)
	}
	old, _ := open(t, map[Call]string{Describe: `{"protocol": 2}`})
	if _, err := old.Snapshot(t.Context(), []targets.Ref{web}); !errors.Is(err, targets.ErrUnscalable) || !strings.Contains(err.Error(), "version 2 of the protocol") {
		t.Errorf("Snapshot() with another version = %v", err)
	}
	small, adapter := open(t, map[Call]string{Describe: `{"protocol": 1}`})
	version := read(t, small, adapter, `{"count": 2, "version": "17"}`).Version
	if err := small.Remove(t.Context(), web, []string{"a"}, version, ""); !errors.Is(err, targets.ErrUnscalable) || !strings.Contains(err.Error(), "does not support this call") {
		t.Errorf("Remove() without support = %v", err)
	}
}

// TestManyTargets checks that a request contains at most 1,000 targets.
func TestManyTargets(t *testing.T) {
	f, adapter := open(t, map[Call]string{Snapshot: `{"targets": {}}`})
	var refs []targets.Ref
	for n := range 2500 {
		refs = append(refs, targets.Ref{Fleet: "f", Name: fmt.Sprint(n)})
	}
	readings, err := f.Snapshot(t.Context(), refs)
	if err != nil || len(readings) != len(refs) {
		t.Fatalf("Snapshot() = %d readings, %v", len(readings), err)
	}
	for n, want := range []int{0, 1000, 1000, 500} {
		if got := len(adapter.requests[n].Targets); got != want {
			t.Errorf("request %d has %d targets, want %d", n, got, want)
		}
	}
}

func TestDiscover(t *testing.T) {
	f, adapter := open(t, map[Call]string{Discover: `{"discovered": [{"name": "web", "labels": {"hpad.enable": "true", "team": "shop"}}, {"name": "db", "labels": {"team": "shop"}}]}`})
	found, err := f.Discover(t.Context())
	if diff := cmp.Diff([]targets.Discovered{{Name: "web", Labels: map[string]string{"hpad.enable": "true"}}}, found); diff != "" || err != nil {
		t.Errorf("Discover() = %v (-want +got):\n%s", err, diff)
	}
	adapter.of[Discover] = `{"discovered": [{"name": "-v", "labels": {"hpad.enable": "true"}}]}`
	if _, err := f.Discover(t.Context()); !errors.Is(err, targets.ErrTransient) || !strings.Contains(err.Error(), `"-v"`) {
		t.Errorf("Discover() of an invalid name = %v", err)
	}
}

// TestSamples checks that samples reach the reading's instances, and that an invalid sample affects
// only its own instance.
func TestSamples(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		at := time.Now().UTC().Format(time.RFC3339)
		f, adapter := open(t, map[Call]string{Samples: `{"samples": {"web": [{"id": "a", "at": "` + at + `", "window": 15, "usage": {"cpu": "250m"}},
			{"id": "b", "at": "` + at + `", "window": 0, "usage": {"cpu": "1"}}, {"id": "gone", "at": "` + at + `", "window": 1, "usage": {}}]}}`})
		read(t, f, adapter, `{"count": 2, "instances": [{"id": "a"}, {"id": "b"}]}`)
		if _, err := f.Samples(t.Context(), []targets.Ref{web}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		samples, err := f.Samples(t.Context(), []targets.Ref{web})
		got := samples[web]
		if err != nil || len(got.Instances) != 1 || got.Instances[0].ID != "a" || got.Instances[0].Window != 15*time.Second || got.Instances[0].Tasks[0].Usage[0].Milli != 250 {
			t.Errorf("Samples() = %+v, %v, want 250m of a", got, err)
		}
		if got.Err == nil || !strings.Contains(got.Err.Error(), `instance "b"`) {
			t.Errorf("Samples.Err = %v, want the error of b", got.Err)
		}
	})
}
