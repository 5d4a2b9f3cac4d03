package azurevmss

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/hpad/hpad/settings"
)

// Target is the part of an autoscaler's target table that an Azure fleet reads.
type Target struct {
	// ResourceGroup and ScaleSet name the scale set, in any case.
	ResourceGroup string `toml:"resource_group"`
	ScaleSet      string `toml:"scale_set"`
}

// Validate returns every mistake of the target.
func (t *Target) Validate() []settings.FieldError {
	var mistakes []settings.FieldError
	check := func(field, value, what string) {
		switch {
		case value == "":
			mistakes = append(mistakes, settings.FieldError{Field: field, Detail: "is required: " + what})
		case strings.Contains(value, "/"):
			mistakes = append(mistakes, settings.FieldError{Field: field, Value: strconv.Quote(value), Detail: "must be a name without slashes, not a resource id"})
		}
	}
	check("resource_group", t.ResourceGroup, "the name of the scale set's resource group")
	check("scale_set", t.ScaleSet, "the name of a virtual machine scale set")
	return mistakes
}

// Name returns the target's name in a targets.Ref: "resource_group/scale_set" in
// lower case, since Azure ignores the case.
func (t *Target) Name() string { return strings.ToLower(t.ResourceGroup + "/" + t.ScaleSet) }

// key names a scale set, in lower case.
type key struct{ group, set string }

// keyOf returns the key that a target's name stands for.
func keyOf(name string) (key, error) {
	group, set, ok := strings.Cut(strings.ToLower(name), "/")
	if !ok || group == "" || set == "" || strings.Contains(set, "/") {
		return key{}, fmt.Errorf("target %q is not as resource_group/scale_set", name)
	}
	return key{group: group, set: set}, nil
}

// String returns "resource_group/scale_set".
func (k key) String() string { return k.group + "/" + k.set }

// keyOfID returns the key in a resource id, as
// "/subscriptions/S/resourceGroups/G/providers/Microsoft.Compute/virtualMachineScaleSets/V".
func keyOfID(id string) (key, bool) {
	parts := strings.Split(strings.ToLower(strings.Trim(id, "/")), "/")
	if len(parts) < 8 || parts[2] != "resourcegroups" || parts[6] != "virtualmachinescalesets" {
		return key{}, false
	}
	return key{group: parts[3], set: parts[7]}, true
}
