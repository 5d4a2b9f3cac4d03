package azuretest

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// moduleDir returns where a module is that hpad or its dependencies require, once it is
// downloaded.
func moduleDir(t *testing.T, module string) string {
	t.Helper()
	if output, err := exec.CommandContext(t.Context(), "go", "mod", "download", module).CombinedOutput(); err != nil {
		t.Fatalf("module %s cannot be had to compare with: %v %s", module, err, output)
	}
	output, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", module).CombinedOutput()
	if err != nil {
		t.Fatalf("module %s: %v %s", module, err, output)
	}
	return strings.TrimSpace(string(output))
}

// TestRoutes holds the paths, methods and versions of the compute API against the
// SDK's client, which is generated from Azure's own description of it.
func TestRoutes(t *testing.T) {
	dir := moduleDir(t, "github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v7")
	files := map[string]string{
		"VirtualMachineScaleSetsClient":               "virtualmachinescalesets_client.go",
		"VirtualMachineScaleSetVMsClient":             "virtualmachinescalesetvms_client.go",
		"VirtualMachinesClient":                       "virtualmachines_client.go",
		"VirtualMachineScaleSetRollingUpgradesClient": "virtualmachinescalesetrollingupgrades_client.go",
	}
	creators := map[string]string{
		"NewListAllPager": "listAllCreateRequest", "NewListPager": "listCreateRequest", "Get": "getCreateRequest",
		"BeginUpdate": "updateCreateRequest", "BeginDeleteInstances": "deleteInstancesCreateRequest", "GetLatest": "getLatestCreateRequest",
	}
	checked := 0
	for _, r := range routes {
		if r.api == "" {
			continue
		}
		client, method, _ := strings.Cut(r.api, ".")
		source, err := os.ReadFile(filepath.Join(dir, files[client]))
		if err != nil {
			t.Fatal(err)
		}
		begin := strings.Index(string(source), ") "+creators[method]+"(")
		if begin < 0 {
			t.Errorf("%s: the SDK has no %s", r.operation, creators[method])
			continue
		}
		body, _, _ := strings.Cut(string(source)[begin:], "\n}\n")
		path := regexp.MustCompile(`urlPath := "([^"]+)"`).FindStringSubmatch(body)
		if path == nil {
			t.Fatalf("%s: the SDK's request has no path", r.operation)
		}
		example := regexp.MustCompile(`\{[^}]+\}`).ReplaceAllString(path[1], "some-name")
		if !r.compiled.MatchString(example) {
			t.Errorf("%s: the SDK asks %s, which %s does not match", r.operation, example, r.pattern)
		}
		verb := map[string]string{"GET": "MethodGet", "PATCH": "MethodPatch", "POST": "MethodPost"}[r.method]
		if !strings.Contains(body, "http."+verb) || !strings.Contains(body, `"api-version", "`+r.version+`"`) {
			t.Errorf("%s: the SDK's request is not %s with version %s:\n%s", r.operation, r.method, r.version, body)
		}
		checked++
	}
	if checked < 8 {
		t.Errorf("%d routes were compared, want all of the compute API", checked)
	}
}

// TestInterfaceRoutes compares hpad's requests of the network API, and the responses of this
// package, with the SDK's client.
func TestInterfaceRoutes(t *testing.T) {
	dir := moduleDir(t, "github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/network/armnetwork/v8")
	source, err := os.ReadFile(filepath.Join(dir, "interfaces_client.go"))
	if err != nil {
		t.Fatal(err)
	}
	for operation, creator := range map[string]string{
		"NetworkInterfaces_ListVirtualMachineScaleSetNetworkInterfaces": "listVirtualMachineScaleSetNetworkInterfacesCreateRequest",
		"NetworkInterfaces_List": "listCreateRequest",
	} {
		begin := strings.Index(string(source), ") "+creator+"(")
		if begin < 0 {
			t.Errorf("%s: the SDK has no %s", operation, creator)
			continue
		}
		body, _, _ := strings.Cut(string(source)[begin:], "\n}\n")
		path := regexp.MustCompile(`urlPath := "([^"]+)"`).FindStringSubmatch(body)[1]
		example := regexp.MustCompile(`\{[^}]+\}`).ReplaceAllString(path, "some-name")
		found := false
		for _, r := range routes {
			if r.operation != operation {
				continue
			}
			found = true
			if !r.compiled.MatchString(example) {
				t.Errorf("%s: the SDK asks %s, which %s does not match", operation, example, r.pattern)
			}
			// The one for scale sets has had one version for good.
			if strings.Contains(operation, "ScaleSet") && !strings.Contains(body, `"`+r.version+`"`) {
				t.Errorf("%s: the SDK does not ask for version %s", operation, r.version)
			}
		}
		if !found {
			t.Errorf("this Azure does not know %s", operation)
		}
	}
	models, err := os.ReadFile(filepath.Join(dir, "models_serde.go"))
	if err != nil {
		t.Fatal(err)
	}
	for typed, keys := range map[string][]string{
		"InterfacePropertiesFormat":                {"primary", "virtualMachine", "ipConfigurations"},
		"InterfaceIPConfigurationPropertiesFormat": {"primary", "privateIPAddress"},
	} {
		begin := strings.Index(string(models), "func (i *"+typed+") UnmarshalJSON(")
		if begin < 0 {
			t.Errorf("the SDK does not read %s", typed)
			continue
		}
		body, _, _ := strings.Cut(string(models)[begin:], "\n}\n")
		for _, key := range keys {
			if !strings.Contains(body, `case "`+key+`":`) {
				t.Errorf("%s has no %q", typed, key)
			}
		}
	}
}
