package gcemig

import (
	"testing"

	"google.golang.org/api/compute/v1"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/test/gce/gcetest"
)

// documented returns the values of an enum of the API.
func documented(t *testing.T, schema, property string) []string {
	t.Helper()
	document, err := gcetest.Discovery()
	if err != nil {
		t.Fatal(err)
	}
	values := document.Schemas[schema].Properties[property].Enum
	if len(values) == 0 {
		t.Fatalf("the discovery document contains no values for %s.%s", schema, property)
	}
	return values
}

// TestMemberState checks the state of an instance for each action and status of the API.
func TestMemberState(t *testing.T) {
	const (
		pending = "pending"
		running = "running"
		leaving = "leaving"
		unknown = "unknown"
		left    = "not counted"
	)
	words := func(s memberState) string {
		switch {
		case !s.counted:
			return left
		case s.deleting:
			return leaving
		}
		return map[policy.Phase]string{policy.PhasePending: pending, policy.PhaseRunning: running, policy.PhaseUnknown: unknown}[s.phase]
	}
	byAction := map[string]string{
		"CREATING": pending, "CREATING_WITHOUT_RETRIES": pending, "VERIFYING": pending, "RECREATING": pending,
		"RESTARTING": pending, "STARTING": pending, "RESUMING": pending,
		"DELETING": leaving, "ABANDONING": leaving, "STOPPING": leaving, "SUSPENDING": leaving,
	}
	byStatus := map[string]string{
		"": pending, "PENDING": pending, "PROVISIONING": pending, "STAGING": pending, "RUNNING": running,
		"STOPPING": leaving, "PENDING_STOP": leaving, "DEPROVISIONING": leaving, "SUSPENDING": leaving,
		"REPAIRING": unknown, "STOPPED": left, "SUSPENDED": left, "TERMINATED": left, "NEW_ONE": unknown,
	}
	for _, action := range append(documented(t, "ManagedInstance", "currentAction"), "NEW_ONE", "") {
		for _, status := range append(documented(t, "ManagedInstance", "instanceStatus"), "NEW_ONE", "") {
			want, ok := byAction[action]
			if !ok {
				if want, ok = byStatus[status]; !ok {
					t.Errorf("the test lacks the instance status %s", status)
				}
			}
			got := words(memberStateOf(&compute.ManagedInstance{CurrentAction: action, InstanceStatus: status}))
			if got != want {
				t.Errorf("state for action %q and status %q = %s, want %s", action, status, got, want)
			}
		}
	}
}

// TestHealth checks the readiness for each state of a health check.
func TestHealth(t *testing.T) {
	want := map[string]policy.Readiness{
		"HEALTHY": policy.ReadinessTrue, "UNHEALTHY": policy.ReadinessFalse, "TIMEOUT": policy.ReadinessFalse,
		"DRAINING": policy.ReadinessFalse, "UNKNOWN": policy.ReadinessNotKnown, "": policy.ReadinessNotKnown,
	}
	for _, state := range append(documented(t, "ManagedInstanceInstanceHealth", "detailedHealthState"), "") {
		m := &compute.ManagedInstance{InstanceHealth: []*compute.ManagedInstanceInstanceHealth{{DetailedHealthState: "HEALTHY"}, {DetailedHealthState: state}}}
		expected, ok := want[state]
		if !ok {
			t.Errorf("the test lacks the health state %s", state)
		}
		if got := healthOf(m, true); got != expected {
			t.Errorf("readiness with one healthy check and one %q = %v, want %v", state, got, expected)
		}
		if got := healthOf(m, false); got != policy.ReadinessTrue {
			t.Errorf("readiness without a health check = %v, want ready", got)
		}
	}
	if got := healthOf(&compute.ManagedInstance{}, true); got != policy.ReadinessNotKnown {
		t.Errorf("readiness without a health check result = %v, want unknown", got)
	}
}

func TestIdentity(t *testing.T) {
	const url = "https://www.googleapis.com/compute/v1/projects/p/zones/us-east1-b/instances/web-x1"
	for _, c := range []struct {
		member         *compute.ManagedInstance
		id, name, zone string
	}{
		{&compute.ManagedInstance{Id: 42, Name: "web-x1", Instance: url}, "42", "web-x1", "us-east1-b"},
		{&compute.ManagedInstance{Name: "web-x1", Instance: url}, "web-x1", "web-x1", "us-east1-b"},
		{&compute.ManagedInstance{Id: 42, Instance: url}, "42", "web-x1", "us-east1-b"},
		{&compute.ManagedInstance{Id: 42, Name: "web-x1"}, "42", "web-x1", ""},
	} {
		if id, name, zone := idOf(c.member), nameOf(c.member), zoneOf(c.member); id != c.id || name != c.name || zone != c.zone {
			t.Errorf("%+v: id = %q, name = %q, zone = %q, want %q, %q, %q", c.member, id, name, zone, c.id, c.name, c.zone)
		}
	}
}
