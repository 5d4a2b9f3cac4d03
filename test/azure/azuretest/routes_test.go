package azuretest

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// moduleDir downloads a required module and returns its directory.
func moduleDir(t *testing.T, module string) string {
	t.Helper()
	if output, err := exec.CommandContext(t.Context(), "go", "mod", "download", module).CombinedOutput(); err != nil {
		t.Fatalf("download module %s: %v %s", module, err, output)
	}
	output, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", module).CombinedOutput()
	if err != nil {
		t.Fatalf("find module %s: %v %s", module, err, output)
	}
	return strings.TrimSpace(string(output))
}

// TestRoutes compares the paths, methods and versions of the compute API with the SDK's client,
// which is generated from Azure's specification.
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
		body := compareRoute(t, r, string(source), creators[method])
		verb := map[string]string{"GET": "MethodGet", "PATCH": "MethodPatch", "POST": "MethodPost"}[r.method]
		if !strings.Contains(body, "http."+verb) || !strings.Contains(body, `"api-version", "`+r.version+`"`) {
			t.Errorf("%s: want %s with version %s, got\n%s", r.operation, r.method, r.version, body)
		}
		checked++
	}
	if checked < 8 {
		t.Errorf("compared %d routes, want at least 8", checked)
	}
}

// compareRoute compares a route's pattern with the path in the SDK function that creates the
// request. It returns the body of that function.
func compareRoute(t *testing.T, r route, source, creator string) string {
	t.Helper()
	body := function(t, source, ") "+creator+"(")
	path := regexp.MustCompile(`urlPath := "([^"]+)"`).FindStringSubmatch(body)
	if path == nil {
		t.Fatalf("%s: no path in %s", r.operation, creator)
	}
	example := regexp.MustCompile(`\{[^}]+\}`).ReplaceAllString(path[1], "some-name")
	if !r.compiled.MatchString(example) {
		t.Errorf("%s: %s does not match the SDK's %s", r.operation, r.pattern, example)
	}
	return body
}

// function returns the source code from a declaration to the end of the function.
func function(t *testing.T, source, declaration string) string {
	t.Helper()
	_, rest, found := strings.Cut(source, declaration)
	if !found {
		t.Fatalf("the SDK has no function %q", declaration)
	}
	body, _, _ := strings.Cut(rest, "\n}\n")
	return body
}

// TestInterfaceRoutes compares the paths and properties of the network API with the SDK's client.
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
		at := slices.IndexFunc(routes, func(r route) bool { return r.operation == operation })
		if at < 0 {
			t.Errorf("no route for %s", operation)
			continue
		}
		body := compareRoute(t, routes[at], string(source), creator)
		// Only the operation for scale sets has a fixed version.
		if version := routes[at].version; strings.Contains(operation, "ScaleSet") && !strings.Contains(body, `"`+version+`"`) {
			t.Errorf("%s: the SDK does not use version %s", operation, version)
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
		body := function(t, string(models), "func (i *"+typed+") UnmarshalJSON(")
		for _, key := range keys {
			if !strings.Contains(body, `case "`+key+`":`) {
				t.Errorf("%s has no property %q", typed, key)
			}
		}
	}
}
