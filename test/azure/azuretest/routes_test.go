package azuretest

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestRoutes compares the paths, methods and versions of the compute API with the SDK's client,
// which is generated from Azure's specification.
func TestRoutes(t *testing.T) {
	const module = "github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v7"
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		t.Fatalf("find module %s: %v", module, err)
	}
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
		source, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), files[client]))
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
		t.Errorf("compared routes = %d, want at least 8", checked)
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
