package azurevmss

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/hpad/hpad/policy"
)

// TestMachine checks every state of a machine in both orchestration modes.
func TestMachine(t *testing.T) {
	const (
		gone     = "gone"
		deleting = "deleting"
	)
	for _, test := range []struct {
		name                 string
		state, power, health string
		monitored            bool
		// want is the phase, "not counted", or "leaving".
		want      string
		readiness policy.Readiness
	}{
		{name: "being created", state: "Creating", want: "Pending", readiness: policy.ReadinessFalse},
		{name: "starting", state: "Succeeded", power: "starting", want: "Pending", readiness: policy.ReadinessFalse},
		{name: "runs", state: "Succeeded", power: "running", want: "Running", readiness: policy.ReadinessTrue},
		{name: "running, upper case", state: "SUCCEEDED", power: "RUNNING", want: "Running", readiness: policy.ReadinessTrue},
		{name: "running during an update", state: "Updating", power: "running", want: "Running", readiness: policy.ReadinessTrue},
		{name: "healthy", state: "Succeeded", power: "running", health: "healthy", monitored: true, want: "Running", readiness: policy.ReadinessTrue},
		{name: "unhealthy", state: "Succeeded", power: "running", health: "Unhealthy", monitored: true, want: "Running", readiness: policy.ReadinessFalse},
		{name: "initializing", state: "Succeeded", power: "running", health: "initializing", monitored: true, want: "Running", readiness: policy.ReadinessFalse},
		{name: "unknown health", state: "Succeeded", power: "running", health: "unknown", monitored: true, want: "Running", readiness: policy.ReadinessUnknown},
		{name: "no health yet", state: "Succeeded", power: "running", monitored: true, want: "Running", readiness: policy.ReadinessNotKnown},
		{name: "failed", state: "Failed", power: "running", want: "Failed", readiness: policy.ReadinessFalse},
		{name: "deleting", state: "Deleting", power: "running", want: deleting, readiness: policy.ReadinessTrue},
		{name: "deleting and stopping", state: "Deleting", power: "stopping", want: deleting, readiness: policy.ReadinessTrue},
		{name: "stopping", state: "Succeeded", power: "stopping", want: deleting, readiness: policy.ReadinessTrue},
		{name: "deallocating", state: "Updating", power: "deallocating", want: deleting, readiness: policy.ReadinessTrue},
		{name: "stopped", state: "Succeeded", power: "stopped", want: gone},
		{name: "deallocated", state: "Succeeded", power: "deallocated", want: gone},
		{name: "without an instance view", state: "Succeeded", want: "Unknown", readiness: policy.ReadinessNotKnown},
	} {
		statuses := ""
		if test.power != "" {
			statuses = fmt.Sprintf(`{"code":"PowerState/%s","level":"Info"}`, test.power)
		}
		health := "null"
		if test.health != "" {
			health = fmt.Sprintf(`{"status":{"code":"HealthState/%s"}}`, test.health)
		}
		text := fmt.Sprintf(`{"id":"/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/x/web_3","name":"web_3","instanceId":"3",
			"properties":{"provisioningState":%q,"timeCreated":"2026-11-21T10:00:00Z","instanceView":{"statuses":[%s],"vmHealth":%s}}}`, test.state, statuses, health)
		t.Run(test.name, func(t *testing.T) {
			for mode, flexible := range map[string]bool{"Uniform": false, "Flexible": true} {
				m := machineIn(t, text, flexible)
				if got := described(m); got != test.want {
					t.Errorf("%s: got %s, want %s", mode, got, test.want)
				}
				if test.want == gone {
					continue
				}
				if got := m.readiness(test.monitored); got != test.readiness {
					t.Errorf("%s: readiness = %v, want %v", mode, got, test.readiness)
				}
				if seen := m.member(test.monitored); !seen.Launched.Equal(time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)) {
					t.Errorf("%s: launched = %v", mode, seen.Launched)
				}
			}
		})
	}
}

// machineIn parses a machine in Azure's format.
func machineIn(t *testing.T, text string, flexible bool) *machine {
	t.Helper()
	var m machine
	if err := json.Unmarshal([]byte(text), &m); err != nil || !m.complete(flexible) {
		t.Fatalf("decode machine: %v", err)
	}
	return &m
}

// described formats the state of a machine for TestMachine.
func described(m *machine) string {
	switch {
	case !m.counts():
		return "gone"
	case m.leaving():
		return "deleting"
	}
	return m.phase().String()
}

// TestMachineDetails checks the other properties of a machine.
func TestMachineDetails(t *testing.T) {
	m := machineIn(t, `{
		"id": "/subscriptions/S/resourceGroups/Shop/providers/Microsoft.Compute/virtualMachineScaleSets/Web/virtualMachines/3",
		"name": "Web_3", "instanceId": "3", "zones": ["2"], "tags": {"role": "front"},
		"properties": {
			"provisioningState": "Succeeded", "timeCreated": "2026-11-21T10:00:00Z", "latestModelApplied": false, "vmId": "0a-1b",
			"osProfile": {"computerName": "web000003"}, "protectionPolicy": {"protectFromScaleSetActions": true},
			"instanceView": {"statuses": [
				{"code": "ProvisioningState/succeeded", "time": "2026-11-21T10:02:00Z"},
				{"code": "PowerState/running", "time": "2026-11-21T11:00:00Z"}
			]}
		}
	}`, false)
	member := m.member(false)
	if at := time.Date(2026, 11, 21, 11, 0, 0, 0, time.UTC); !member.Launched.Equal(at) {
		t.Errorf("member = %+v, want a start time after its creation", member)
	}
	if !m.outdated() {
		t.Error("outdated() = false, want true")
	}
	if member.ID != "Web_3" || member.Handle != "3" || member.Name != "web000003" || !member.Protected {
		t.Errorf("member = %+v", member)
	}
	for label, want := range map[string]string{"role": "front", "zone": "2", "vm_id": "0a-1b"} {
		if member.Labels[label] != want {
			t.Errorf("label %s = %q, want %q", label, member.Labels[label], want)
		}
	}
	if m.Tags["zone"] != "" {
		t.Error("the reading's labels were added to the tags")
	}
}

// TestStandby checks that machines in a standby pool are not counted.
func TestStandby(t *testing.T) {
	m := &machine{state: stateSucceeded, power: powerRunning}
	m.Properties.View.Standby = true
	if m.counts() {
		t.Error("a machine in the standby pool is counted")
	}
}

// TestScaleSet checks the derived fields of a scale set.
func TestScaleSet(t *testing.T) {
	read := func(text string) *scaleSet {
		t.Helper()
		var s scaleSet
		if err := json.Unmarshal([]byte(text), &s); err != nil || !s.complete() {
			t.Fatalf("decode %s: %v", text, err)
		}
		return &s
	}
	const id = `"id": "/subscriptions/S/resourceGroups/SHOP/providers/Microsoft.Compute/virtualMachineScaleSets/Web"`
	s := read(`{` + id + `, "etag": "\"7\"", "sku": {"name": "Standard_D2s_v5", "tier": "Standard", "capacity": 3}, "properties": {
		"provisioningState": "Updating", "orchestrationMode": "Flexible", "singlePlacementGroup": true,
		"upgradePolicy": {"mode": "Rolling"},
		"virtualMachineProfile": {"extensionProfile": {"extensions": [{"properties": {"type": "ApplicationHealthWindows"}}]}}
	}}`)
	if s.key != (key{group: "shop", set: "web"}) || s.group != "SHOP" || s.name != "Web" {
		t.Errorf("names = %+v, %q, %q", s.key, s.group, s.name)
	}
	if *s.SKU.Capacity != 3 || s.ETag != `"7"` || !s.busy() || !s.flexible || !s.monitored || !s.upgrading || *groupOf(s).Max != 100 || s.unscalable() != nil {
		t.Errorf("scale set = %+v", s)
	}
	plain := read(`{` + id + `, "sku": {"name": "Standard_D2s_v5", "capacity": 0}, "properties": {"provisioningState": "Succeeded",
		"virtualMachineProfile": {"networkProfile": {"healthProbe": {"id": "/probe"}}}}}`)
	if plain.busy() || plain.flexible || !plain.monitored || plain.upgrading || *groupOf(plain).Max != 1000 || plain.ETag != "" || plain.unscalable() != nil {
		t.Errorf("scale set = %+v", plain)
	}
	bare := read(`{` + id + `, "properties": {"orchestrationMode": "Flexible"}}`)
	if err := bare.unscalable(); err == nil {
		t.Error("unscalable() = nil for a set without a profile")
	}
}

func TestTargetNames(t *testing.T) {
	target := &Target{ResourceGroup: "Shop", ScaleSet: "Web"}
	if target.Name() != "shop/web" || target.Validate() != nil {
		t.Errorf("Name() = %q, Validate() = %v", target.Name(), target.Validate())
	}
	if errs := (&Target{ResourceGroup: "/subscriptions/s/resourceGroups/g"}).Validate(); len(errs) != 2 {
		t.Errorf("Validate() = %v, want two errors", errs)
	}
	for _, name := range []string{"", "shop", "shop/", "/web", "a/b/c"} {
		if k, err := keyOf(name); err == nil {
			t.Errorf("keyOf(%q) = %v", name, k)
		}
	}
}
