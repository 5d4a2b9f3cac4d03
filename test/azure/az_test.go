package azure

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"testing"

	"github.com/hpad/hpad/test/azure/azuretest"
	"github.com/hpad/hpad/test/internal/installed"
)

// az runs the Azure CLI against a server and decodes its output.
func az(t *testing.T, s *azuretest.Server, dir string, into any, args ...string) {
	t.Helper()
	command := exec.CommandContext(t.Context(), "az", append(args, "--output", "json")...)
	command.Env = append(os.Environ(),
		"AZURE_CONFIG_DIR="+dir, "REQUESTS_CA_BUNDLE="+s.CAFile, "SSL_CERT_FILE="+s.CAFile,
		"AZURE_CORE_COLLECT_TELEMETRY=false", "AZURE_CORE_ONLY_SHOW_ERRORS=true",
	)
	var stderr bytes.Buffer
	command.Stderr = &stderr
	output, err := command.Output()
	if err != nil {
		t.Fatalf("az %q: %v\n%s%s", args, err, output, stderr.Bytes())
	}
	if into == nil {
		return
	}
	if err := json.Unmarshal(output, into); err != nil {
		t.Fatalf("az %q printed %s: %v", args, output, err)
	}
}

// TestAz checks that the Azure CLI can read and scale the sets of the fake Azure, which it treats
// as a private cloud.
func TestAz(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("az"); err != nil {
		installed.Absent(t, "az is not installed (apt-get install azure-cli)")
	}
	s := azuretest.New(t)
	s.Tolerate()
	s.Add(azuretest.Set{Group: "shop", Name: "web", Capacity: 2, Monitored: true})
	s.Add(azuretest.Set{Group: "shop", Name: "flex", Capacity: 1, Flexible: true})
	dir := t.TempDir()
	az(t, s, dir, nil, "cloud", "register", "--name", "tests", "--endpoint-resource-manager", s.URL, "--endpoint-management", s.URL,
		"--endpoint-active-directory", s.URL+"/"+azuretest.Federation, "--endpoint-active-directory-resource-id", s.URL)
	az(t, s, dir, nil, "cloud", "set", "--name", "tests", "--profile", "2020-09-01-hybrid")
	az(t, s, dir, nil, "login", "--service-principal", "--username", azuretest.Client, "--password", azuretest.Secret, "--tenant", azuretest.Federation)

	var sets []struct {
		Name              string
		ProvisioningState string
		Sku               struct{ Capacity int }
	}
	az(t, s, dir, &sets, "vmss", "list", "--resource-group", "shop")
	if len(sets) != 2 || sets[0].Name != "flex" || sets[1].Sku.Capacity != 2 || sets[1].ProvisioningState != "Succeeded" {
		t.Errorf("az vmss list: got %+v", sets)
	}
	var machines []struct {
		InstanceID   string
		Name         string
		InstanceView struct {
			Statuses []struct{ Code string }
			VMHealth struct{ Status struct{ Code string } }
		}
	}
	az(t, s, dir, &machines, "vmss", "list-instances", "--resource-group", "shop", "--name", "web", "--expand", "instanceView")
	if len(machines) != 2 || machines[1].InstanceID != "1" || len(machines[1].InstanceView.Statuses) != 2 || machines[1].InstanceView.VMHealth.Status.Code != "HealthState/healthy" {
		t.Errorf("az vmss list-instances: got %+v", machines)
	}
	az(t, s, dir, nil, "rest", "--method", "patch", "--headers", `If-Match="1"`, "--body", `{"sku":{"name":"Standard_D2s_v5","capacity":4}}`,
		"--uri", s.URL+"/subscriptions/"+azuretest.Subscription+"/resourceGroups/shop/providers/Microsoft.Compute/virtualMachineScaleSets/web?api-version=2025-04-01")
	if got := s.Capacity("shop/web"); got != 4 {
		t.Errorf("capacity %d after az rest, want 4", got)
	}
	az(t, s, dir, nil, "vmss", "delete-instances", "--resource-group", "shop", "--name", "web", "--instance-ids", "0", "2")
	if got := s.Capacity("shop/web"); got != 2 {
		t.Errorf("capacity %d after az vmss delete-instances, want 2", got)
	}
}
