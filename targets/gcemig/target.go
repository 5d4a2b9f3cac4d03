package gcemig

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/hpad/hpad/settings"
)

// Target is the part of an autoscaler's target table that this kind of fleet reads.
type Target struct {
	// Group is the name of a managed instance group.
	Group string `toml:"group"`
	// Zone is that of a zonal group, Region that of a regional one: one of them. When
	// both are empty the fleet's is meant.
	Zone   string `toml:"zone"`
	Region string `toml:"region"`
}

// Validate returns every mistake of the target; Config.CheckTarget those that it makes
// together with its fleet.
func (t *Target) Validate() []settings.FieldError {
	var mistakes settings.Mistakes
	name := func(field, value string) {
		if value != "" && !resourceName.MatchString(value) {
			mistakes.Add(field, strconv.Quote(value), nameForm)
		}
	}
	if t.Group == "" {
		mistakes.Add("group", "", "is required: the name of a managed instance group")
	}
	name("group", t.Group)
	name("zone", t.Zone)
	name("region", t.Region)
	if t.Zone != "" && t.Region != "" {
		mistakes.Add("region", strconv.Quote(t.Region), "must not be set where zone is: a group is zonal or regional")
	}
	return mistakes
}

// Name returns the target's name in a targets.Ref: "zones/ZONE/GROUP" or
// "regions/REGION/GROUP".
func (t *Target) Name() string { return t.scope() + "/" + t.Group }

const (
	zones   = "zones"
	regions = "regions"
)

// scope is where the group is, as aggregated lists have it.
func (t *Target) scope() string {
	if t.Region != "" {
		return regions + "/" + t.Region
	}
	return zones + "/" + t.Zone
}

// parseName is the inverse of Name.
func parseName(name string) (Target, error) {
	parts := strings.Split(name, "/")
	if len(parts) != 3 || parts[1] == "" || parts[2] == "" {
		return Target{}, fmt.Errorf("target %q is not as zones/ZONE/GROUP or regions/REGION/GROUP", name)
	}
	switch parts[0] {
	case zones:
		return Target{Zone: parts[1], Group: parts[2]}, nil
	case regions:
		return Target{Region: parts[1], Group: parts[2]}, nil
	}
	return Target{}, fmt.Errorf("target %q is not as zones/ZONE/GROUP or regions/REGION/GROUP", name)
}

// String returns the name.
func (t Target) String() string { return t.Name() }
