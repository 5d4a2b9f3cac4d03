package azurevmss

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
	platform "github.com/hpad/hpad/targets/cloud"
	"github.com/hpad/hpad/targets/targettest"
	"github.com/hpad/hpad/test/azure/azuretest"
	"github.com/hpad/hpad/test/wait"
)

// read reads one target, which must succeed.
func read(t testing.TB, f *Fleet, name string) targets.Reading {
	t.Helper()
	reading := readOf(t, f, name)
	if reading.Err != nil {
		t.Fatalf("%s: Err = %v", name, reading.Err)
	}
	return reading
}

func readOf(t testing.TB, f *Fleet, name string) targets.Reading {
	t.Helper()
	readings, err := f.Snapshot(t.Context(), []targets.Ref{ref(name)})
	if err != nil {
		t.Fatal(err)
	}
	return readings[ref(name)]
}

// both runs a test with a Uniform and with a Flexible set named shop/web.
func both(t *testing.T, set azuretest.Set, test func(t *testing.T, s *azuretest.Server, f *Fleet)) {
	for name, flexible := range map[string]bool{"Uniform": false, "Flexible": true} {
		t.Run(name, func(t *testing.T) {
			s := azuretest.New(t)
			set := set
			set.Group, set.Name, set.Flexible = "Shop", "Web", flexible
			s.Add(set)
			test(t, s, openFleet(t, testConfig(t, s, hasty), targets.Env{}))
		})
	}
}

// TestReading checks the counts, bounds, readiness and locations of machines in a reading.
func TestReading(t *testing.T) {
	both(t, azuretest.Set{Capacity: 3, Monitored: true}, func(t *testing.T, s *azuretest.Server, f *Fleet) {
		s.Page(2)
		s.Change("shop/web", func(set *azuretest.Set) {
			set.Machines[0].Protected = true
			set.Machines[1].Health = "unhealthy"
			set.Machines[2].Power = "deallocated"
		})
		r := read(t, f, "shop/web")
		if r.SpecReplicas != 3 || r.StatusReplicas != 2 || len(r.Instances) != 2 || *r.Max != 1000 || *r.Min != 0 || r.Hold != nil || r.Version == "" {
			t.Fatalf("reading = %+v", r)
		}
		first, location := r.Instances[0], r.Locations.At(0)
		want := azuretest.Look(s, "shop/web", func(set *azuretest.Set) string {
			return fmt.Sprintln(set.ID(set.Machines[0]), set.Host(set.Machines[0]), set.Machines[0].Address())
		})
		if got := fmt.Sprintln(first.ID, location.Name, location.Addresses[0]); got != want {
			t.Errorf("first machine = %q, want %q", got, want)
		}
		if len(location.Addresses) != 2 || location.Labels["role"] != "worker" {
			t.Errorf("location = %+v, want two addresses, the primary address first", location)
		}
		if uniform := !strings.Contains(t.Name(), "Flexible"); location.Protected != uniform {
			t.Errorf("Protected = %t", location.Protected)
		}
		if first.Readiness != policy.ReadinessTrue || r.Instances[1].Readiness != policy.ReadinessFalse {
			t.Errorf("readiness = %v and %v, want True and False", first.Readiness, r.Instances[1].Readiness)
		}
		if age := time.Since(first.StartedAt); age < 50*time.Minute {
			t.Errorf("age = %v, want about an hour", age)
		}
	})
}

// TestBoot checks the states of a starting machine: pending, running but not ready, and ready.
func TestBoot(t *testing.T) {
	both(t, azuretest.Set{Capacity: 1, Monitored: true, BootDelay: time.Second, HealthDelay: 3 * time.Second}, func(t *testing.T, s *azuretest.Server, f *Fleet) {
		before := read(t, f, "shop/web")
		if err := f.SetReplicas(t.Context(), ref("shop/web"), 3, before.Version, "test"); err != nil {
			t.Fatal(err)
		}
		r := read(t, f, "shop/web")
		if r.SpecReplicas != 3 || r.StatusReplicas != 3 || count(r, policy.PhasePending) != 2 || r.Hold == nil || r.Hold.Reason != ScaleSetUpdating {
			t.Fatalf("reading immediately after the write = %+v, hold = %+v", r, r.Hold)
		}
		if err := f.SetReplicas(t.Context(), ref("shop/web"), 4, r.Version, "test"); !errors.Is(err, targets.ErrHeld) {
			t.Errorf("SetReplicas() during an update of the set = %v, want ErrHeld", err)
		}
		wait.For(t, 10*time.Second, "running instance that is not ready", func() (string, bool) {
			r := read(t, f, "shop/web")
			return fmt.Sprintf("%+v", r.Instances), count(r, policy.PhaseRunning) == 3 && r.Instances[1].Readiness == policy.ReadinessFalse
		})
		wait.For(t, 10*time.Second, "ready instance", func() (string, bool) {
			r := read(t, f, "shop/web")
			return fmt.Sprintf("%+v", r.Instances), r.Hold == nil && !slices.ContainsFunc(r.Instances, func(i policy.Instance) bool { return i.Readiness != policy.ReadinessTrue })
		})
	})
}

func count(r targets.Reading, phase policy.Phase) int {
	n := 0
	for _, instance := range r.Instances {
		if instance.Phase == phase {
			n++
		}
	}
	return n
}

// TestHolds checks that each cause of a hold prevents writes and has its own reason.
func TestHolds(t *testing.T) {
	for _, test := range []struct {
		name   string
		extra  string
		change func(set *azuretest.Set)
		reason string
	}{
		{"updating", "", func(set *azuretest.Set) { set.Busy = true }, ScaleSetUpdating},
		{"updating, while_updating = write", "while_updating = \"write\"\n", func(set *azuretest.Set) { set.Busy = true }, ""},
		{"upgrading", "", func(set *azuretest.Set) { set.Rolling, set.Upgrading = true, true }, platform.RolloutInProgress},
		{"upgrading, detected by outdated machines", "", func(set *azuretest.Set) { set.Rolling, set.Machines[0].Outdated = true, true }, ""},
		{"upgrading, while_upgrading = write", "while_upgrading = \"write\"\n", func(set *azuretest.Set) { set.Rolling, set.Upgrading = true, true }, ""},
		{"deleting", "", func(set *azuretest.Set) { set.Deleting = true }, ScaleSetDeleting},
		{"another autoscaler", "", func(set *azuretest.Set) { set.Autoscaled = true }, platform.NativeAutoscaler},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := azuretest.New(t)
			s.Add(azuretest.Set{Group: "shop", Name: "web", Capacity: 2})
			s.Change("shop/web", test.change)
			f := openFleet(t, testConfig(t, s, hasty+test.extra), targets.Env{})
			r := read(t, f, "shop/web")
			reason := ""
			if r.Hold != nil {
				reason = r.Hold.Reason
			}
			if reason != test.reason {
				t.Fatalf("hold = %+v, want reason %q", r.Hold, test.reason)
			}
			err := f.SetReplicas(t.Context(), ref("shop/web"), 3, r.Version, "test")
			if held := errors.Is(err, targets.ErrHeld); held != (test.reason != "") || !held && err != nil {
				t.Errorf("SetReplicas() = %v", err)
			}
			writes := s.Calls("VirtualMachineScaleSets_Update")
			if want := map[bool]int{true: 0, false: 1}[test.reason != ""]; writes != want {
				t.Errorf("writes = %d, want %d", writes, want)
			}
		})
	}
}

// TestRefusals checks the errors for changes that Azure rejects.
func TestRefusals(t *testing.T) {
	s := azuretest.New(t)
	s.Add(azuretest.Set{Group: "shop", Name: "web", Capacity: 99, SinglePlacement: true})
	s.Add(azuretest.Set{Group: "shop", Name: "bare", Unsized: true, Flexible: true})
	s.Add(azuretest.Set{Group: "shop", Name: "busy", Capacity: 1, Busy: true, RefusesWhileBusy: true})
	f := openFleet(t, testConfig(t, s, hasty+"while_updating = \"write\"\n"), targets.Env{})
	r := read(t, f, "shop/web")
	err := f.SetReplicas(t.Context(), ref("shop/web"), 101, r.Version, "test")
	if bounds, ok := errors.AsType[*targets.OutOfRangeError](err); !ok || *bounds.Max != 100 {
		t.Errorf("SetReplicas() above the limit of a placement group = %v, want an OutOfRangeError with 100", err)
	}
	if err := f.SetReplicas(t.Context(), ref("shop/web"), 100, r.Version, "test"); err != nil {
		t.Error(err)
	}
	if r := readOf(t, f, "shop/bare"); !errors.Is(r.Err, targets.ErrUnscalable) || targets.Reason(r.Err) != NoProfile {
		t.Errorf("error of a set without a profile = %v", r.Err)
	}
	if err := f.SetReplicas(t.Context(), ref("shop/bare"), 1, "", "test"); !errors.Is(err, targets.ErrUnscalable) {
		t.Errorf("SetReplicas() without a profile = %v, want ErrUnscalable", err)
	}
	err = f.SetReplicas(t.Context(), ref("shop/busy"), 2, "", "test")
	if held, ok := errors.AsType[*targets.HeldError](err); !ok || held.Hold.Reason != ConcurrentRequest {
		t.Errorf("SetReplicas() during another request = %v, want %s", err, ConcurrentRequest)
	}
	if r := readOf(t, f, "shop/nobody"); targets.Reason(r.Err) != ScaleSetNotFound {
		t.Errorf("error of an unknown set = %v", r.Err)
	}
}

// TestLostResponses checks that a write without a response has an unknown outcome.
func TestLostResponses(t *testing.T) {
	for name, failure := range map[string]azuretest.Failure{
		"an error after the write": {Status: 500, Code: "InternalServerError", Late: true},
		"a closed connection":      {Cut: true, Late: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := azuretest.New(t)
			s.Add(azuretest.Set{Group: "shop", Name: "web", Capacity: 2})
			f := openFleet(t, testConfig(t, s, hasty), targets.Env{})
			r := read(t, f, "shop/web")
			failure.Operation, failure.Times = "VirtualMachineScaleSets_Update", 1
			s.Fail(failure)
			if err := f.SetReplicas(t.Context(), ref("shop/web"), 3, r.Version, "test"); !errors.Is(err, targets.ErrUnknownOutcome) {
				t.Errorf("SetReplicas() = %v, want ErrUnknownOutcome", err)
			}
			if r := read(t, f, "shop/web"); r.SpecReplicas != 3 {
				t.Errorf("capacity = %d, want the written 3", r.SpecReplicas)
			}
		})
	}
}

// TestRemove checks that Remove deletes machines and lowers the capacity at the given version, and
// ignores missing and deleted machines.
func TestRemove(t *testing.T) {
	both(t, azuretest.Set{Capacity: 5}, func(t *testing.T, s *azuretest.Server, f *Fleet) {
		r := read(t, f, "shop/web")
		victims := []string{r.Instances[1].ID, r.Instances[3].ID, "web_gone"}
		if err := f.Remove(t.Context(), ref("shop/web"), victims, "4", "test"); !errors.Is(err, targets.ErrConflict) {
			t.Errorf("Remove() at an outdated version = %v, want ErrConflict", err)
		}
		if err := f.Remove(t.Context(), ref("shop/web"), victims, r.Version, "test"); err != nil {
			t.Fatal(err)
		}
		after := read(t, f, "shop/web")
		if after.SpecReplicas != 3 || after.StatusReplicas != 3 {
			t.Errorf("spec = %d and status = %d, want 3", after.SpecReplicas, after.StatusReplicas)
		}
		for _, instance := range after.Instances {
			if slices.Contains(victims, instance.ID) && !instance.Deleting {
				t.Errorf("victim %q still exists", instance.ID)
			}
		}
		if err := f.Remove(t.Context(), ref("shop/web"), victims, "", "test"); err != nil {
			t.Errorf("Remove() of a deleted machine = %v, want nil", err)
		}
		if got := s.Calls("VirtualMachineScaleSets_DeleteInstances"); got != 1 {
			t.Errorf("deletions = %d, want 1", got)
		}
		if got := s.Capacity("shop/web"); got != 3 {
			t.Errorf("capacity = %d, want 3", got)
		}
	})
}

// TestAllocationFailed checks that machines that cannot be created are Failed instances, and that a
// notice contains Azure's message.
func TestAllocationFailed(t *testing.T) {
	s := azuretest.New(t)
	s.Add(azuretest.Set{Group: "shop", Name: "web", Capacity: 2})
	s.Change("shop/web", func(set *azuretest.Set) { set.FailAllocation = "AllocationFailed" })
	store := &targettest.Store{}
	f := openFleet(t, testConfig(t, s, hasty), targets.Env{Store: store})
	r := read(t, f, "shop/web")
	if err := f.SetReplicas(t.Context(), ref("shop/web"), 4, r.Version, "test"); err != nil {
		t.Fatal(err)
	}
	r = read(t, f, "shop/web")
	if r.SpecReplicas != 4 || r.StatusReplicas != 2 || count(r, policy.PhaseFailed) != 2 {
		t.Errorf("reading = %+v, want 2 of 4 machines", r)
	}
	if len(r.Notices) != 1 || r.Notices[0].Reason != "AllocationFailed" || !strings.Contains(r.Notices[0].Message, "sufficient capacity") {
		t.Errorf("notices = %+v, want Azure's message", r.Notices)
	}
}

// TestCredentials checks that hpad uses a new client secret after the old secret has expired.
func TestCredentials(t *testing.T) {
	s := azuretest.New(t)
	s.Add(azuretest.Set{Group: "shop", Name: "web", Capacity: 2})
	f := openFleet(t, testConfig(t, s, hasty), targets.Env{})
	r := read(t, f, "shop/web")
	s.Refuse(true)
	for range 2 { // first the token is rejected, then the secret
		if _, err := f.Snapshot(t.Context(), []targets.Ref{ref("shop/web")}); !errors.Is(err, targets.ErrForbidden) {
			t.Fatalf("Snapshot() with an expired secret = %v, want ErrForbidden", err)
		}
	}
	_, err := f.Snapshot(t.Context(), []targets.Ref{ref("shop/web")})
	if err == nil || !strings.Contains(err.Error(), "AADSTS7000222") || strings.Contains(err.Error(), azuretest.Secret) || strings.Contains(err.Error(), "\n") {
		t.Errorf("Snapshot() = %v, want the message of Microsoft Entra ID in one line", err)
	}
	if err := f.SetReplicas(t.Context(), ref("shop/web"), 3, r.Version, "test"); !errors.Is(err, targets.ErrForbidden) || errors.Is(err, targets.ErrUnknownOutcome) {
		t.Errorf("SetReplicas() = %v, want ErrForbidden and no write", err)
	}
	s.Refuse(false)
	if r := read(t, f, "shop/web"); r.SpecReplicas != 2 {
		t.Errorf("replicas = %d, want 2", r.SpecReplicas)
	}
}

// TestSecretFile checks that the secret file is read again when it changes, and that an unusable
// file is an error.
func TestSecretFile(t *testing.T) {
	s := azuretest.New(t)
	s.Add(azuretest.Set{Group: "shop", Name: "web", Capacity: 2})
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(s.SecretFile, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f := openFleet(t, testConfig(t, s, hasty), targets.Env{})
	for _, test := range []struct{ text, wantText string }{{"wrong", "invalid_client"}, {" \n", "is empty"}} {
		write(test.text)
		if _, err := f.Snapshot(t.Context(), []targets.Ref{ref("shop/web")}); !errors.Is(err, targets.ErrForbidden) || !strings.Contains(err.Error(), test.wantText) {
			t.Errorf("Snapshot() with the secret %q = %v, want %q", test.text, err, test.wantText)
		}
	}
	if err := os.Remove(s.SecretFile); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Snapshot(t.Context(), []targets.Ref{ref("shop/web")}); !errors.Is(err, targets.ErrForbidden) || !strings.Contains(err.Error(), "client_secret_file") {
		t.Errorf("Snapshot() without the file = %v, want an error", err)
	}
	write(azuretest.Secret)
	read(t, f, "shop/web")
}

// TestCheck checks that Check names the missing permission for each set.
func TestCheck(t *testing.T) {
	s := azuretest.New(t)
	s.Add(azuretest.Set{Group: "shop", Name: "web", Capacity: 2, Rolling: true})
	s.Add(azuretest.Set{Group: "lab", Name: "flex", Capacity: 1, Flexible: true})
	f := openFleet(t, testConfig(t, s, hasty), targets.Env{})
	refs := []targets.Ref{ref("shop/web"), ref("lab/flex")}
	if _, err := f.Snapshot(t.Context(), refs); err != nil {
		t.Fatal(err)
	}
	check := func(want string, actions ...string) {
		t.Helper()
		s.Permit(actions...)
		found, err := f.Check(t.Context())
		text := fmt.Sprintf("%s %v", strings.Join(found, "; "), err)
		if !strings.Contains(text, want) {
			t.Errorf("Check() with %q = %s, want %q", actions, text, want)
		}
	}
	all := []string{
		"Microsoft.Compute/virtualMachineScaleSets/read", "Microsoft.Compute/virtualMachineScaleSets/write", "Microsoft.Compute/virtualMachineScaleSets/delete/action",
		"Microsoft.Compute/virtualMachineScaleSets/virtualMachines/*", "Microsoft.Compute/virtualMachines/*", "Microsoft.Compute/virtualMachineScaleSets/rollingUpgrades/read",
	}
	without := func(n int) []string { return slices.Delete(slices.Clone(all), n, n+1) }
	check("has permission Microsoft.Compute/virtualMachineScaleSets/write", "*")
	check("<nil>", all...)
	check("Microsoft.Compute/virtualMachineScaleSets/read", without(0)...)
	check(`Microsoft.Compute/virtualMachineScaleSets/write is missing for "lab/flex", "shop/web"`, without(1)...)
	check(`lacks permission Microsoft.Compute/virtualMachineScaleSets/delete/action for "lab/flex", "shop/web", so hpad cannot choose victims`, without(2)...)
	check(`is missing for "lab/flex"`, without(4)...)
	if s.Capacity("shop/web") != 2 || s.Capacity("lab/flex") != 1 {
		t.Error("Check() changed the platform")
	}
	s.Permit("*")
	s.Remove("lab/flex")
	if found, err := f.Check(t.Context()); !errors.Is(err, targets.ErrTargetNotFound) || !strings.Contains(err.Error(), "lab/flex") {
		t.Errorf("Check() without a set = %q, %v", found, err)
	}
}

// TestWithoutExtras checks that a missing permission for autoscale settings or network interfaces
// is a problem without other effects.
func TestWithoutExtras(t *testing.T) {
	s := azuretest.New(t)
	s.Add(azuretest.Set{Group: "shop", Name: "web", Capacity: 2})
	s.Permit("Microsoft.Compute/virtualMachineScaleSets/read", "Microsoft.Compute/virtualMachineScaleSets/write", "Microsoft.Compute/virtualMachineScaleSets/virtualMachines/*")
	f := openFleet(t, testConfig(t, s, hasty), targets.Env{})
	for range 3 {
		r := read(t, f, "shop/web")
		if r.StatusReplicas != 2 || r.Locations.At(0).Addresses != nil {
			t.Fatalf("reading = %+v", r)
		}
	}
	problems := strings.Join(f.Problems(), "\n")
	if !strings.Contains(problems, "autoscaleSettings/read") || !strings.Contains(problems, `match = "address"`) {
		t.Errorf("Problems() = %s", problems)
	}
	for _, operation := range []string{"AutoscaleSettings_List", "NetworkInterfaces_ListVirtualMachineScaleSetNetworkInterfaces"} {
		if got := s.Calls(operation); got != 1 {
			t.Errorf("calls of %s in three rounds = %d, want 1", operation, got)
		}
	}
	quiet := openFleet(t, testConfig(t, s, hasty+"addresses = \"none\"\n"), targets.Env{})
	read(t, quiet, "shop/web")
	if got := s.Calls("NetworkInterfaces_ListVirtualMachineScaleSetNetworkInterfaces"); got != 1 {
		t.Error("addresses were queried although addresses is none")
	}
}

// TestOneSetFails checks that the failure of one set does not affect other sets.
func TestOneSetFails(t *testing.T) {
	s := azuretest.New(t)
	for _, name := range []string{"a", "b", "c"} {
		s.Add(azuretest.Set{Group: "shop", Name: name, Capacity: 1})
	}
	f := openFleet(t, testConfig(t, s, hasty), targets.Env{})
	s.Fail(azuretest.Failure{Operation: "VirtualMachineScaleSetVMs_List", Times: 1, Status: 500, Code: "InternalServerError", Message: "oops"})
	refs := []targets.Ref{ref("shop/a"), ref("shop/b"), ref("shop/c")}
	readings, err := f.Snapshot(t.Context(), refs)
	if err != nil {
		t.Fatal(err)
	}
	failed := 0
	for ref, r := range readings {
		if r.Err != nil {
			failed++
			if !errors.Is(r.Err, targets.ErrTransient) || !strings.Contains(r.Err.Error(), ref.Name) {
				t.Errorf("%s: %v", ref, r.Err)
			}
		}
	}
	if failed != 1 {
		t.Errorf("failed sets = %d, want 1", failed)
	}
}

// TestGroupsAndSubscription checks that a few resource groups are listed individually, many in
// one list.
func TestGroupsAndSubscription(t *testing.T) {
	s := azuretest.New(t)
	var refs []targets.Ref
	for i := range mostGroups + 1 {
		group := fmt.Sprintf("group-%d", i)
		s.Add(azuretest.Set{Group: group, Name: "web", Capacity: 1})
		refs = append(refs, ref(group+"/web"))
	}
	snapshot := func(extra string, refs []targets.Ref) (groups, all int) {
		t.Helper()
		f := openFleet(t, testConfig(t, s, hasty+extra), targets.Env{})
		groups, all = s.Calls("VirtualMachineScaleSets_List"), s.Calls("VirtualMachineScaleSets_ListAll")
		readings, err := f.Snapshot(t.Context(), refs)
		if err != nil {
			t.Fatal(err)
		}
		for ref, r := range readings {
			if r.Err != nil {
				t.Errorf("%s: %v", ref, r.Err)
			}
		}
		return s.Calls("VirtualMachineScaleSets_List") - groups, s.Calls("VirtualMachineScaleSets_ListAll") - all
	}
	for _, test := range []struct {
		extra       string
		refs        []targets.Ref
		groups, all int
	}{
		{"", refs[:mostGroups], mostGroups, 0},
		{"", refs, 0, 1},
		{"list_by = \"subscription\"\n", refs[:1], 0, 1},
		{"list_by = \"resource-groups\"\n", refs, len(refs), 0},
	} {
		if groups, all := snapshot(test.extra, test.refs); groups != test.groups || all != test.all {
			t.Errorf("%d sets with %q: %d lists of groups and %d of the subscription, want %d and %d", len(test.refs), test.extra, groups, all, test.groups, test.all)
		}
	}
}

// TestAutoscalersCached checks that reading a single set, which uses a different list, does
// not delete the cached autoscale settings of the other sets.
func TestAutoscalersCached(t *testing.T) {
	s := azuretest.New(t)
	var refs []targets.Ref
	for i := range mostGroups + 1 {
		group := fmt.Sprintf("group-%d", i)
		s.Add(azuretest.Set{Group: group, Name: "web", Capacity: 1, Autoscaled: i == 0})
		refs = append(refs, ref(group+"/web"))
	}
	f := openFleet(t, testConfig(t, s, hasty), targets.Env{})
	if _, err := f.Snapshot(t.Context(), refs); err != nil {
		t.Fatal(err)
	}
	read(t, f, "group-1/web")
	if err := f.SetReplicas(t.Context(), refs[0], 2, "", "test"); !errors.Is(err, targets.ErrHeld) {
		t.Errorf("SetReplicas() of a set with an autoscale setting = %v, want ErrHeld", err)
	}
	if err := f.SetReplicas(t.Context(), refs[1], 2, "", "test"); err != nil {
		t.Errorf("SetReplicas() of another set = %v", err)
	}
}

// refusal returns an error response as the SDK returns it.
func refusal(status int, body string, header ...string) error {
	response := &http.Response{
		StatusCode: status, Status: http.StatusText(status), Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body)),
		Request: &http.Request{Method: http.MethodPatch, URL: &url.URL{Scheme: "https", Host: "management.azure.com"}},
	}
	for i := 0; i+1 < len(header); i += 2 {
		response.Header.Set(header[i], header[i+1])
	}
	return runtime.NewResponseError(response)
}

func coded(code, message string) string {
	return `{"error":{"code":"` + code + `","message":"` + message + `"}}`
}

// TestErrors checks the class of each error, for reads and writes.
func TestErrors(t *testing.T) {
	dial := &url.Error{Op: "Patch", URL: "https://x", Err: &net.OpError{Op: "dial", Err: errors.New("connection refused")}}
	cut := &url.Error{Op: "Patch", URL: "https://x", Err: io.ErrUnexpectedEOF}
	for _, test := range []struct {
		name        string
		err         error
		read, write error
		// reason is the code in the write's error, and unknown reports whether the write's
		// outcome is unknown.
		reason  string
		unknown bool
		// wantText is a part of the write error.
		wantText string
	}{
		{
			name: "no authorization", err: refusal(403, coded("AuthorizationFailed", "does not have authorization to perform action 'Microsoft.Compute/virtualMachineScaleSets/write'")),
			read: targets.ErrForbidden, write: targets.ErrForbidden, wantText: "Microsoft.Compute/virtualMachineScaleSets/write",
		},
		{name: "expired token", err: refusal(401, coded("ExpiredAuthenticationToken", "expired")), read: targets.ErrForbidden, write: targets.ErrForbidden},
		{name: "no set", err: refusal(404, coded("ResourceNotFound", "was not found")), read: targets.ErrTargetNotFound, write: targets.ErrTargetNotFound, reason: ScaleSetNotFound},
		{name: "no group", err: refusal(404, coded("ResourceGroupNotFound", "was not found")), read: targets.ErrTargetNotFound, write: targets.ErrTargetNotFound, reason: ScaleSetNotFound},
		{name: "no subscription", err: refusal(404, coded("SubscriptionNotFound", "not found")), read: targets.ErrForbidden, write: targets.ErrForbidden},
		{name: "too many requests", err: refusal(429, coded("OperationNotAllowed", "too many requests"), "Retry-After", "17"), read: targets.ErrThrottled, write: targets.ErrThrottled},
		{name: "overloaded", err: refusal(503, coded("ServerBusy", "busy"), "Retry-After", "5"), read: targets.ErrThrottled, write: targets.ErrThrottled},
		{name: "unavailable", err: refusal(503, ""), read: targets.ErrTransient, write: targets.ErrTransient, unknown: true},
		{name: "internal error", err: refusal(500, coded("InternalServerError", "oops")), read: targets.ErrTransient, write: targets.ErrTransient, unknown: true},
		{name: "proxy error", err: refusal(502, "<html>Bad Gateway</html>"), read: targets.ErrTransient, write: targets.ErrTransient, unknown: true},
		{name: "outdated ETag", err: refusal(412, coded("ConditionNotMet", "If-Match")), read: targets.ErrTransient, write: targets.ErrConflict},
		{
			name: "marked for deletion", err: refusal(409, coded("OperationNotAllowed", "since the VM Scale Set is marked for deletion.")),
			read: targets.ErrTransient, write: targets.ErrTargetNotFound, reason: ScaleSetDeleting,
		},
		{name: "conflict", err: refusal(409, coded("Conflict", "conflict with a concurrent request")), read: targets.ErrTransient, write: targets.ErrHeld, reason: ConcurrentRequest},
		{name: "not allowed", err: refusal(409, coded("OperationNotAllowed", "in this state")), read: targets.ErrTransient, write: targets.ErrHeld, reason: OperationNotAllowed},
		{
			name: "quota", err: refusal(409, coded("OperationNotAllowed", "Operation could not be completed as it results in exceeding approved Total Regional Cores quota.")),
			read: targets.ErrTransient, write: targets.ErrHeld, reason: platform.QuotaExceeded, wantText: "Total Regional Cores",
		},
		{
			name: "quota in the details", err: refusal(400, `{"error":{"code":"InvalidTemplateDeployment","message":"see details","details":[{"code":"QuotaExceeded","message":"Family quota"}]}}`),
			read: targets.ErrTransient, write: targets.ErrHeld, reason: platform.QuotaExceeded, wantText: "Family quota",
		},
		{name: "shortage", err: refusal(409, coded("SkuNotAvailable", "not available in this region")), read: targets.ErrTransient, write: targets.ErrHeld, reason: "SkuNotAvailable"},
		{name: "models", err: refusal(409, coded("OperationNotAllowed", "has reached its limit of 10 models that may be referenced")), read: targets.ErrTransient, write: targets.ErrHeld, reason: "ModelLimitReached"},
		{name: "out of range", err: refusal(400, coded("InvalidParameter", "singlePlacementGroup has at most 100")), read: targets.ErrTransient, write: targets.ErrOutOfRange},
		{name: "other invalid parameter", err: refusal(400, coded("InvalidParameter", "sku.name")), read: targets.ErrTransient, write: targets.ErrTransient},
		{name: "no connection", err: dial, read: targets.ErrTransient, write: targets.ErrTransient},
		{name: "closed connection", err: cut, read: targets.ErrTransient, write: targets.ErrTransient, unknown: true},
		{name: "deadline", err: context.DeadlineExceeded, read: targets.ErrTransient, write: targets.ErrTransient, unknown: true},
		{name: "hpad's own limit", err: &targets.ThrottledError{Err: errors.New("own limit")}, read: targets.ErrThrottled, write: targets.ErrThrottled},
		{name: "no token", err: &platform.TokenError{Err: errors.New("no credential is configured")}, read: targets.ErrForbidden, write: targets.ErrForbidden},
		{name: "token server unreachable", err: &platform.TokenError{Err: dial}, read: targets.ErrTransient, write: targets.ErrTransient},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := errorClasses.Classify(t.Context(), platform.Read, test.err); !errors.Is(got, test.read) {
				t.Errorf("read error = %v, want %v", got, test.read)
			}
			got := errorClasses.Classify(t.Context(), platform.Write, test.err)
			if !errors.Is(got, test.write) || errors.Is(got, targets.ErrUnknownOutcome) != test.unknown {
				t.Fatalf("write error = %v, want %v, unknown outcome: %t", got, test.write, test.unknown)
			}
			reason := targets.Reason(got)
			if held, ok := errors.AsType[*targets.HeldError](got); ok {
				reason = held.Hold.Reason
			}
			if reason != test.reason || !strings.Contains(got.Error(), test.wantText) || strings.Contains(got.Error(), "\n") {
				t.Errorf("write error = %q with reason %q, want reason %q and %q in one line", got, reason, test.reason, test.wantText)
			}
		})
	}
	throttled, ok := errors.AsType[*targets.ThrottledError](errorClasses.Classify(t.Context(), platform.Read, refusal(429, "", "Retry-After", "17")))
	if !ok || throttled.RetryAfter != 17*time.Second {
		t.Errorf("throttled error = %+v, want 17s", throttled)
	}
}
