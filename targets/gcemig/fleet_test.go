package gcemig

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/cloud"
	"github.com/hpad/hpad/targets/targettest"
	"github.com/hpad/hpad/test/gce/gcetest"
)

func total(calls map[string]int) int {
	n := 0
	for _, count := range calls {
		n += count
	}
	return n
}

func TestReading(t *testing.T) {
	server, f := startWeb(t, 2, func(g *gcetest.Group) { g.Boot = time.Hour })
	first := read(t, f, web)
	if first.SpecReplicas != 2 || first.StatusReplicas != 2 || first.Min != nil || first.Max != nil || first.Hold != nil || first.Notices != nil {
		t.Errorf("reading = %+v, want only 2 replicas", first)
	}
	names := server.Running(t, web)
	for i, instance := range first.Instances {
		location := first.Locations.At(i)
		age := time.Since(instance.StartedAt)
		if instance.Phase != policy.PhaseRunning || instance.Readiness != policy.ReadinessTrue || age < 59*time.Minute || age > 61*time.Minute {
			t.Errorf("instance = %+v, want one that has been running for an hour", instance)
		}
		if instance.ReadinessChanged.Before(instance.StartedAt) {
			t.Errorf("instance %s became ready at %v, before its start at %v", instance.ID, instance.ReadinessChanged, instance.StartedAt)
		}
		if !slices.Contains(names, location.Name) || len(location.Addresses) != 2 || location.Labels["service"] != "web" || location.Protected {
			t.Errorf("location = %+v, want a name in %v, two addresses and the label", location, names)
		}
	}
	server.Resize(t, web, 3)
	grown := read(t, f, web)
	if grown.SpecReplicas != 3 || grown.StatusReplicas != 3 || grown.Version == first.Version {
		t.Errorf("replicas = %d of %d at version %q, want 3 of 3 at a version other than %q", grown.StatusReplicas, grown.SpecReplicas, grown.Version, first.Version)
	}
	if got := grown.Instances[2]; got.Phase != policy.PhasePending || got.Readiness != policy.ReadinessFalse {
		t.Errorf("new instance = %+v, want Pending", got)
	}
}

// TestUncounted checks that stopped machines and machines in a standby pool are not counted.
func TestUncounted(t *testing.T) {
	server, f := startWeb(t, 3)
	names := server.Running(t, web)
	server.Force(t, web, names[0], "NONE", "SUSPENDED")
	server.Force(t, web, names[1], "SUSPENDING", "SUSPENDING")
	reading := read(t, f, web)
	if reading.StatusReplicas != 1 || len(reading.Instances) != 2 {
		t.Fatalf("%d replicas of %d instances, want 1 and a deleting instance", reading.StatusReplicas, len(reading.Instances))
	}
	for i, instance := range reading.Instances {
		if want := reading.Locations.At(i).Name == names[1]; instance.Deleting != want {
			t.Errorf("instance %q: Deleting = %v, want %v", reading.Locations.At(i).Name, instance.Deleting, want)
		}
	}
}

// TestZoneUnreachable checks that a group in an unreachable zone has a temporary error, and is not
// reported as missing.
func TestZoneUnreachable(t *testing.T) {
	server, f := startWeb(t, 1)
	server.Add(gcetest.Group{Region: "us-east1", Name: "api", Size: 2})
	server.SetUnreachable("zones/us-east1-b", true)
	api := ref("regions/us-east1/api")
	readings, err := f.Snapshot(t.Context(), []targets.Ref{ref(web), api, ref("zones/us-east1-c/web")})
	if err != nil {
		t.Fatal(err)
	}
	if err := readings[ref(web)].Err; !errors.Is(err, targets.ErrTransient) || !strings.Contains(err.Error(), "UNREACHABLE") {
		t.Errorf("error of a group in an unreachable zone = %v, want ErrTransient", err)
	}
	if reading := readings[api]; reading.Err != nil || reading.SpecReplicas != 2 {
		t.Errorf("group in a different zone = %+v", reading)
	}
	if err := readings[ref("zones/us-east1-c/web")].Err; !errors.Is(err, targets.ErrTargetNotFound) || targets.Reason(err) != cloud.GroupNotFound {
		t.Errorf("error of an unknown group = %v, want ErrTargetNotFound", err)
	}
}

// TestHolds checks the reason for each hold, in the reading and in the error of a write.
func TestHolds(t *testing.T) {
	for name, c := range map[string]struct {
		set    func(t *testing.T, server *gcetest.Server, f *Fleet)
		reason string
		words  string
	}{
		"autoscaler":          {func(t *testing.T, s *gcetest.Server, _ *Fleet) { s.SetAutoscaler(t, web, "ON") }, cloud.NativeAutoscaler, "mode ON"},
		"autoscaler only out": {func(t *testing.T, s *gcetest.Server, _ *Fleet) { s.SetAutoscaler(t, web, "ONLY_SCALE_OUT") }, cloud.NativeAutoscaler, "mode ONLY_SCALE_OUT"},
		"autoscaler off":      {func(t *testing.T, s *gcetest.Server, _ *Fleet) { s.SetAutoscaler(t, web, "OFF") }, "", ""},
		"autoscaler not visible": {func(t *testing.T, s *gcetest.Server, _ *Fleet) {
			s.SetAutoscaler(t, web, "OFF")
			s.Forbid("compute.autoscalers.list", true)
		}, cloud.NativeAutoscaler, "grant compute.autoscalers."},
		"rollout": {func(t *testing.T, s *gcetest.Server, f *Fleet) {
			s.SetRolling(t, web, true)
			f.config.HoldDuringRollout = true
		}, cloud.RolloutInProgress, "proactive update"},
		"rollout, but hold_during_rollout is false": {func(t *testing.T, s *gcetest.Server, _ *Fleet) { s.SetRolling(t, web, true) }, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			server, f := startWeb(t, 2)
			c.set(t, server, f)
			reading := read(t, f, web)
			err := f.SetReplicas(t.Context(), ref(web), 3, reading.Version, "test")
			if c.reason == "" {
				if reading.Hold != nil || err != nil {
					t.Errorf("hold = %+v and error = %v, want neither", reading.Hold, err)
				}
				return
			}
			if reading.Hold == nil || reading.Hold.Reason != c.reason || !strings.Contains(reading.Hold.Message, c.words) {
				t.Errorf("hold = %+v, want %s and %q", reading.Hold, c.reason, c.words)
			}
			held, ok := errors.AsType[*targets.HeldError](err)
			if !ok || held.Hold.Reason != c.reason || !strings.Contains(held.Hold.Message, c.words) {
				t.Errorf("SetReplicas() = %v, want %s and %q", err, c.reason, c.words)
			}
			if writes := server.Writes(); writes != 0 {
				t.Errorf("changes = %d, want 0", writes)
			}
		})
	}
}

// TestRecreated checks that a new group with the same name and size has a different version.
func TestRecreated(t *testing.T) {
	server, f := startWeb(t, 2)
	version := read(t, f, web).Version
	server.Delete(web)
	server.Add(gcetest.Group{Zone: "us-east1-b", Name: "web", Size: 2})
	if err := f.SetReplicas(t.Context(), ref(web), 3, version, "test"); !errors.Is(err, targets.ErrConflict) {
		t.Errorf("SetReplicas() of a recreated group = %v, want ErrConflict", err)
	}
	if after := read(t, f, web); after.Version == version || after.StatusReplicas != 2 {
		t.Errorf("instances = %d at version %q, want 2 at a different version", after.StatusReplicas, after.Version)
	}
}

func TestRemove(t *testing.T) {
	server, f := startWeb(t, 4, func(g *gcetest.Group) { g.Stop = time.Hour })
	reading := read(t, f, web)
	var ids []string
	for _, instance := range reading.Instances[:2] {
		ids = append(ids, instance.ID)
	}
	if err := f.Remove(t.Context(), ref(web), append(ids, "gone"), reading.Version, "test"); err != nil {
		t.Fatal(err)
	}
	after := read(t, f, web)
	if after.SpecReplicas != 2 || after.StatusReplicas != 2 {
		t.Errorf("replicas = %d of %d, want 2 of 2", after.StatusReplicas, after.SpecReplicas)
	}
	for _, instance := range after.Instances {
		if want := slices.Contains(ids, instance.ID); instance.Deleting != want {
			t.Errorf("instance %q: Deleting = %v, want %v", instance.ID, instance.Deleting, want)
		}
	}
	// Removing the same instances again is not an error, and does not lower the size.
	if err := f.Remove(t.Context(), ref(web), ids, after.Version, "test"); err != nil {
		t.Errorf("Remove() of deleting instances = %v, want nil", err)
	}
	if writes, size := server.Writes(), server.Size(t, web); writes != 1 || size != 2 {
		t.Errorf("changes = %d to size %d, want 1 change to 2", writes, size)
	}
	if err := f.Remove(t.Context(), ref(web), []string{after.Instances[3].ID}, reading.Version, "test"); !errors.Is(err, targets.ErrConflict) {
		t.Errorf("Remove() at an old version = %v, want ErrConflict", err)
	}
	server.SetAutoscaler(t, web, "ON")
	if err := f.Remove(t.Context(), ref(web), []string{after.Instances[3].ID}, after.Version, "test"); !errors.Is(err, targets.ErrHeld) {
		t.Errorf("Remove() with an autoscaler = %v, want ErrHeld", err)
	}
	if err := f.Remove(t.Context(), ref("zones/us-east1-b/nobody"), ids, "", "test"); !errors.Is(err, targets.ErrTargetNotFound) {
		t.Errorf("Remove() of an unknown group = %v, want ErrTargetNotFound", err)
	}
}

// TestCapacity checks that errors of instances or of the group cause a notice for as long as they
// last.
func TestCapacity(t *testing.T) {
	for name, c := range map[string]struct {
		begin, end func(t *testing.T, s *gcetest.Server)
		reason     string
		words      string
	}{
		"quota": {
			func(_ *testing.T, s *gcetest.Server) { s.SetQuota(2) }, func(_ *testing.T, s *gcetest.Server) { s.SetQuota(0) },
			cloud.QuotaExceeded, "3 instances do not start: QUOTA_EXCEEDED: Instance 'web' creation failed: Quota 'INSTANCES' exceeded.  Limit: 2.0",
		},
		"stockout": {
			func(t *testing.T, s *gcetest.Server) { s.SetStockout(t, web, true) }, func(t *testing.T, s *gcetest.Server) { s.SetStockout(t, web, false) },
			OutOfCapacity, "does not have enough resources",
		},
	} {
		t.Run(name, func(t *testing.T) {
			server, f := startWeb(t, 2)
			c.begin(t, server)
			if err := f.SetReplicas(t.Context(), ref(web), 5, "", "test"); err != nil {
				t.Fatal(err)
			}
			reading := read(t, f, web)
			if len(reading.Notices) != 1 || reading.Notices[0].Condition != cloud.InsufficientCapacity || reading.Notices[0].Reason != c.reason || !strings.Contains(reading.Notices[0].Message, c.words) {
				t.Errorf("notices = %+v, want %s and %q", reading.Notices, c.reason, c.words)
			}
			if reading.SpecReplicas != 5 || reading.StatusReplicas != 5 {
				t.Errorf("replicas = %d of %d, want 5 of 5 with three Pending", reading.StatusReplicas, reading.SpecReplicas)
			}
			c.end(t, server)
			if reading := read(t, f, web); len(reading.Notices) != 0 {
				t.Errorf("notices after the shortage = %+v, want none", reading.Notices)
			}
		})
	}
}

// meter counts calls.
type meter struct {
	mu     sync.Mutex
	calls  map[string]int
	failed map[string]int
}

func (m *meter) Call(operation string, _ time.Duration, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calls[operation]++
	if err != nil {
		m.failed[operation]++
	}
}

func (*meter) Wait(string, time.Duration) {}

// many returns a server with groups of three instances, and their targets. Half of the groups are
// regional.
func many(t testing.TB, groups int, watched bool) (*gcetest.Server, []targets.Ref) {
	server := gcetest.Start(t)
	refs := make([]targets.Ref, 0, groups)
	for i := range groups {
		group := gcetest.Group{Zone: "us-east1-b", Name: fmt.Sprintf("group-%04d", i), Size: 3, Watched: watched}
		if i%2 == 1 {
			group.Zone, group.Region = "", "us-east1"
		}
		server.Add(group)
		refs = append(refs, ref(group.Target()))
	}
	return server, refs
}

func readAll(t testing.TB, f *Fleet, refs []targets.Ref) map[targets.Ref]targets.Reading {
	t.Helper()
	readings, err := f.Snapshot(t.Context(), refs)
	if err != nil {
		t.Fatal(err)
	}
	for ref, reading := range readings {
		if reading.Err != nil || reading.StatusReplicas != 3 {
			t.Fatalf("%s: replicas = %d, %v", ref, reading.StatusReplicas, reading.Err)
		}
	}
	return readings
}

// TestCalls checks the number of calls in rounds over 600 groups, with and without changes.
func TestCalls(t *testing.T) {
	server, refs := many(t, 600, false)
	config := testConfig(t, server)
	config.ReadsPerSecond = 10_000
	counted := &meter{calls: map[string]int{}, failed: map[string]int{}}
	f := New("prod", config, targets.Env{Store: &targettest.Store{}, Meter: counted})
	t.Cleanup(func() { _ = f.Close() })
	readAll(t, f, refs)
	first := server.Calls()
	if first["instanceGroupManagers.aggregatedList"] != 2 || first["instances.aggregatedList"] != 4 || total(first) != 600+2+4 {
		t.Errorf("calls of the first round = %v, want 2 lists of groups, one list of instances for each group, and 4 lists of machines", first)
	}
	server.ForgetCalls()
	readAll(t, f, refs)
	if again := server.Calls(); total(again) != 2 {
		t.Errorf("calls of a round without changes = %v, want 2 lists of groups", again)
	}
	server.ForgetCalls()
	server.Resize(t, refs[0].Name, 3)
	server.SetTimes(t, refs[1].Name, time.Hour, time.Hour)
	server.Resize(t, refs[1].Name, 4)
	if _, err := f.Snapshot(t.Context(), refs); err != nil {
		t.Fatal(err)
	}
	if changed := server.Calls(); total(changed) != 3 {
		t.Errorf("calls of a round with one changed group = %v, want 3", changed)
	}
	counted.mu.Lock()
	defer counted.mu.Unlock()
	if counted.calls["instanceGroupManagers.aggregatedList"] != 6 || len(counted.failed) != 0 {
		t.Errorf("metered calls = %v, of which failed = %v", counted.calls, counted.failed)
	}
}

// TestAutoscalersCached checks that the modes of autoscalers are read once a minute, and
// immediately for a new autoscaler.
func TestAutoscalersCached(t *testing.T) {
	server, f := startWeb(t, 1)
	server.SetAutoscaler(t, web, "ON")
	for range 3 {
		read(t, f, web)
	}
	if calls := server.Calls()["autoscalers.aggregatedList"]; calls != 1 {
		t.Errorf("lists of autoscalers in three rounds = %d, want 1", calls)
	}
	server.Add(gcetest.Group{Zone: "us-east1-b", Name: "api", Size: 1})
	server.SetAutoscaler(t, "zones/us-east1-b/api", "ON")
	if read(t, f, "zones/us-east1-b/api").Hold == nil {
		t.Error("a new autoscaler causes no hold")
	}
}

// TestMachinesForbidden checks that without the permission to query machines, their start time is
// the time of the first observation, and the query is repeated only after a pause.
func TestMachinesForbidden(t *testing.T) {
	server, f := startWeb(t, 2)
	server.Forbid("compute.instances.get", true)
	server.Forbid("compute.instances.list", true)
	for range 3 {
		for i, instance := range read(t, f, web).Instances {
			if instance.StartedAt.IsZero() || time.Since(instance.StartedAt) > time.Minute {
				t.Errorf("start time of instance %d = %v, want the time of the first observation", i, instance.StartedAt)
			}
		}
	}
	found, err := f.Check(t.Context())
	if err != nil || !strings.Contains(strings.Join(found, "\n"), "lacks permission compute.instances.list") {
		t.Errorf("Check() = %q, %v, want the missing permission and no error", found, err)
	}
}

func TestCheck(t *testing.T) {
	server, f := startWeb(t, 2)
	read(t, f, web)
	found, err := f.Check(t.Context())
	if err != nil || len(found) != 6 {
		t.Errorf("Check() = %q, %v", found, err)
	}
	if writes := server.Writes(); writes != 0 {
		t.Errorf("size changes by Check() = %d, want 0", writes)
	}
	for _, permission := range []string{"compute.instanceGroupManagers.list", "compute.instanceGroupManagers.get", "compute.instanceGroupManagers.update"} {
		server.Forbid(permission, true)
		if _, err := f.Check(t.Context()); !errors.Is(err, targets.ErrForbidden) || !strings.Contains(err.Error(), permission) {
			t.Errorf("Check() without %s = %v, want an error with the permission", permission, err)
		}
		server.Forbid(permission, false)
	}
	server.Forbid("compute.autoscalers.list", true)
	if found, err := f.Check(t.Context()); err != nil || !strings.Contains(strings.Join(found, "\n"), "lacks permission compute.autoscalers.list") {
		t.Errorf("Check() without compute.autoscalers.list = %q, %v", found, err)
	}
	server.Delete(web)
	if _, err := f.Check(t.Context()); !errors.Is(err, targets.ErrTargetNotFound) {
		t.Errorf("Check() of a deleted group = %v, want ErrTargetNotFound", err)
	}
}

// TestCredentialsFile checks that a changed credentials file is used if it is valid, and is a problem
// otherwise.
func TestCredentialsFile(t *testing.T) {
	server := gcetest.Start(t)
	server.Add(gcetest.Group{Zone: "us-east1-b", Name: "web", Size: 1})
	config := testConfig(t, server)
	good := config.CredentialsFile
	config.CredentialsFile = filepath.Join(t.TempDir(), "credentials.json")
	f := openFleet(t, config, nil)
	for name, c := range map[string]struct{ text, want string }{
		"missing": {"", "no such file"},
		"invalid": {`{"type": "service_account", "private_key": "SECRET`, "is not a JSON credentials file"},
		"untyped": {`{"private_key": "SECRET"}`, `does not contain the "type"`},
		"unknown": {`{"type": "SECRET-ish"}`, "use credentials_file"},
	} {
		if c.text != "" {
			if err := os.WriteFile(config.CredentialsFile, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		_, err := f.Snapshot(t.Context(), []targets.Ref{ref(web)})
		if !errors.Is(err, targets.ErrForbidden) || name != "missing" && !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), `"SECRET"`) {
			t.Errorf("%s: %v, want ErrForbidden and %q", name, err, c.want)
		}
	}
	text, err := os.ReadFile(good)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(config.CredentialsFile, text, 0o600); err != nil {
		t.Fatal(err)
	}
	read(t, f, web)
	if err := os.WriteFile(config.CredentialsFile, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	read(t, f, web) // with the previous credentials
	if problems := f.Problems(); len(problems) != 1 || !strings.Contains(problems[0], "still uses the previous") {
		t.Errorf("Problems() = %q, want the unusable file", problems)
	}
}

const (
	resizeMethod = "compute.instanceGroupManagers.resize"
	web          = "zones/us-east1-b/web"
)

// startWeb returns a server with one group of the given size, and a fleet for it.
func startWeb(t testing.TB, size int, change ...func(g *gcetest.Group)) (*gcetest.Server, *Fleet) {
	t.Helper()
	server := gcetest.Start(t)
	group := gcetest.Group{Zone: "us-east1-b", Name: "web", Size: size}
	for _, c := range change {
		c(&group)
	}
	server.Add(group)
	return server, openFleet(t, testConfig(t, server), &targettest.Store{})
}

func read(t testing.TB, f *Fleet, name string) targets.Reading {
	t.Helper()
	readings, err := f.Snapshot(t.Context(), []targets.Ref{ref(name)})
	if err != nil {
		t.Fatal(err)
	}
	reading := readings[ref(name)]
	if reading.Err != nil {
		t.Fatal(reading.Err)
	}
	return reading
}

// TestRefusals checks the class of each rejection.
func TestRefusals(t *testing.T) {
	const autoscaled = "Resizing of autoscaled regional managed instance groups is not allowed. If you want to manually adjust target size remove the autoscaler or set autoscaling policy mode to OFF."
	for name, c := range map[string]struct {
		fault gcetest.Fault
		// read and write are the expected classes of a reading's and a change's error.
		read, write error
		// reason explains the hold, or is the code in the error of the change.
		reason string
		words  string
	}{
		"not found":          {gcetest.Fault{Status: 404, Reason: "notFound", Message: "The resource 'x' was not found"}, targets.ErrTargetNotFound, targets.ErrTargetNotFound, cloud.GroupNotFound, "was not found"},
		"rate limit":         {gcetest.Fault{Status: 403, Reason: "rateLimitExceeded", Message: "Rate Limit Exceeded"}, targets.ErrThrottled, targets.ErrThrottled, "", "Rate Limit Exceeded"},
		"too many requests":  {gcetest.Fault{Status: 429, Reason: "rateLimitExceeded", Message: "Slow down", RetryAfter: 7 * time.Second}, targets.ErrThrottled, targets.ErrThrottled, "", "Slow down"},
		"quota of calls":     {gcetest.Fault{Status: 403, Reason: "quotaExceeded", Message: "Quota exceeded for quota metric 'Queries' and limit 'Queries per minute'"}, targets.ErrThrottled, targets.ErrThrottled, "", "Queries"},
		"quota of machines":  {gcetest.Fault{Status: 403, Reason: "quotaExceeded", Message: "Quota 'INSTANCES' exceeded. Limit: 24.0 in region us-east1."}, targets.ErrForbidden, targets.ErrOutOfRange, cloud.QuotaExceeded, "24.0"},
		"forbidden":          {gcetest.Fault{Status: 403, Reason: "forbidden", Message: "Required 'compute.instanceGroupManagers.update' permission"}, targets.ErrForbidden, targets.ErrForbidden, "", "compute.instanceGroupManagers.update"},
		"api not enabled":    {gcetest.Fault{Status: 403, Reason: "accessNotConfigured", Message: "Compute Engine API has not been used"}, targets.ErrForbidden, targets.ErrForbidden, "", "has not been used"},
		"bad token":          {gcetest.Fault{Status: 401, Reason: "authError", Message: "Invalid Credentials"}, targets.ErrForbidden, targets.ErrForbidden, "", "Invalid Credentials"},
		"autoscaled":         {gcetest.Fault{Status: 412, Reason: "conditionNotMet", Message: autoscaled}, targets.ErrTransient, targets.ErrHeld, cloud.NativeAutoscaler, "mode to OFF"},
		"stale fingerprint":  {gcetest.Fault{Status: 412, Reason: "conditionNotMet", Message: "Invalid fingerprint."}, targets.ErrTransient, targets.ErrConflict, "", "fingerprint"},
		"other condition":    {gcetest.Fault{Status: 412, Reason: "conditionNotMet", Message: "Nope."}, targets.ErrTransient, targets.ErrHeld, ChangeRefused, "Nope."},
		"not ready":          {gcetest.Fault{Status: 400, Reason: "resourceNotReady", Message: "The resource 'x' is not ready"}, targets.ErrTransient, targets.ErrHeld, GroupNotReady, "is not ready"},
		"in use":             {gcetest.Fault{Status: 400, Reason: "resourceInUseByAnotherResource", Message: "in use"}, targets.ErrTransient, targets.ErrHeld, GroupInUse, "in use"},
		"conflict":           {gcetest.Fault{Status: 409, Reason: "alreadyExists", Message: "another operation"}, targets.ErrTransient, targets.ErrHeld, GroupInUse, "another operation"},
		"size out of range":  {gcetest.Fault{Status: 400, Reason: "invalid", Message: "Invalid value for field 'size': '5000'. Must be less than or equal to 1000"}, targets.ErrTransient, targets.ErrOutOfRange, "", "1000"},
		"bad request":        {gcetest.Fault{Status: 400, Reason: "badRequest", Message: "what?"}, targets.ErrTransient, targets.ErrTransient, "", "what?"},
		"internal error":     {gcetest.Fault{Status: 500, Reason: "backendError", Message: "Internal error"}, targets.ErrTransient, targets.ErrUnknownOutcome, "", "Internal error"},
		"unavailable":        {gcetest.Fault{Status: 503, Reason: "backendError", Message: "Try again"}, targets.ErrTransient, targets.ErrUnknownOutcome, "", "Try again"},
		"proxy error":        {gcetest.Fault{Status: 502}, targets.ErrTransient, targets.ErrUnknownOutcome, "", "502"},
		"connection closed":  {gcetest.Fault{Drop: true}, targets.ErrTransient, targets.ErrUnknownOutcome, "", "EOF"},
		"truncated response": {gcetest.Fault{Truncate: true}, targets.ErrTransient, targets.ErrUnknownOutcome, "", "EOF"},
		"lost response":      {gcetest.Fault{Lose: true}, targets.ErrTransient, targets.ErrUnknownOutcome, "", "EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, f := startWeb(t, 2)
			version := read(t, f, web).Version
			refuse := func(method string, call func() error, class error) error {
				fault := c.fault
				fault.Method = method
				remove := server.Inject(fault)
				defer remove()
				err := call()
				if !errors.Is(err, class) {
					t.Errorf("error of %s = %v, want %v", method, err, class)
				}
				if err != nil && !strings.Contains(err.Error(), c.words) {
					t.Errorf("error of %s = %v, want %q", method, err, c.words)
				}
				return err
			}
			scale := func() error { return f.SetReplicas(t.Context(), ref(web), 3, version, "test") }
			err := refuse(resizeMethod, scale, c.write)
			reason := targets.Reason(err)
			if held, ok := errors.AsType[*targets.HeldError](err); ok {
				reason = held.Hold.Reason
			}
			if reason != c.reason {
				t.Errorf("reason = %q, want %q", reason, c.reason)
			}
			if throttled, ok := errors.AsType[*targets.ThrottledError](err); ok {
				if throttled.RetryAfter != c.fault.RetryAfter {
					t.Errorf("RetryAfter = %v, want %v", throttled.RetryAfter, c.fault.RetryAfter)
				}
				return // The whole fleet is paused now.
			}
			_ = refuse("compute.instanceGroupManagers.aggregatedList", func() error {
				_, err := f.Snapshot(t.Context(), []targets.Ref{ref(web)})
				return err
			}, c.read)
		})
	}
}

// TestCredentialsRejected checks that no call is made without a token, and that the error names
// the token.
func TestCredentialsRejected(t *testing.T) {
	server, f := startWeb(t, 1)
	server.ExpireCredentials(true)
	_, err := f.Snapshot(t.Context(), []targets.Ref{ref(web)})
	if !errors.Is(err, targets.ErrForbidden) || !strings.Contains(err.Error(), "authenticate: ") {
		t.Errorf("Snapshot() without credentials = %v, want ErrForbidden with the cause", err)
	}
	if err := f.SetReplicas(t.Context(), ref(web), 2, "", "test"); !errors.Is(err, targets.ErrForbidden) {
		t.Errorf("SetReplicas() without credentials = %v, want ErrForbidden", err)
	}
	server.ExpireCredentials(false)
	if got := read(t, f, web).SpecReplicas; got != 1 {
		t.Errorf("replicas with restored credentials = %d, want 1", got)
	}
	// A token that is rejected before it expires is dropped.
	server.ExpireCredentials(true)
	server.ExpireCredentials(false)
	if _, err := f.Snapshot(t.Context(), []targets.Ref{ref(web)}); !errors.Is(err, targets.ErrForbidden) {
		t.Errorf("Snapshot() with an old token = %v, want ErrForbidden", err)
	}
	if got := read(t, f, web).SpecReplicas; got != 1 {
		t.Errorf("replicas with a new token = %d, want 1", got)
	}
}

// TestOperationFails checks that a change that is accepted and fails immediately is an error.
func TestOperationFails(t *testing.T) {
	server, f := startWeb(t, 2)
	version := read(t, f, web).Version
	server.FailResizes(t, web, "QUOTA_EXCEEDED", "Quota 'CPUS' exceeded.  Limit: 24.0 in region us-east1.")
	err := f.SetReplicas(t.Context(), ref(web), 5, version, "test")
	if !errors.Is(err, targets.ErrOutOfRange) || targets.Reason(err) != cloud.QuotaExceeded || !strings.Contains(err.Error(), "CPUS") {
		t.Errorf("failing SetReplicas() = %v, want ErrOutOfRange with reason %s", err, cloud.QuotaExceeded)
	}
}
