// Package azurevmss is the fleet kind for the virtual machine scale sets of an Azure
// subscription, both Uniform and Flexible. Each target is a scale set, and its instances are the
// set's machines.
//
// Each round lists the scale sets once. It lists the machines of changed and unsettled sets, and
// of other sets as far as the fleet's rate limit allows. The version of a reading is the set's
// capacity and ETag. Each write contains the ETag, so that it cannot overwrite another change.
package azurevmss

import (
	"cmp"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/cloud"

	"github.com/hpad/hpad/settings"
	"github.com/hpad/hpad/settings/httpclient"
	"github.com/hpad/hpad/targets"
	platform "github.com/hpad/hpad/targets/cloud"
	"github.com/hpad/hpad/targets/cloud/azurelogin"
)

// The ways of listing scale sets: the values of Config.ListBy.
const (
	listAuto           = "auto"            // individual resource groups if there are few, otherwise the subscription
	listSubscription   = "subscription"    // the whole subscription, in one paged list
	listResourceGroups = "resource-groups" // each resource group with targets
)

// The addresses that are queried: the values of Config.Addresses.
const (
	addressesPrivate = "private" // IP addresses of the network interfaces
	addressesNone    = "none"
)

// The effects of an update or upgrade on writes: the values of Config.WhileUpdating and
// Config.WhileUpgrading.
const (
	Hold  = "hold"  // the count is not changed
	Write = "write" // the count is changed if Azure accepts the change
)

// Config is one [fleets.NAME] table of kind "azurevmss". The defaults come from the environment
// variables of Azure's SDKs.
type Config struct {
	// Subscription is the id of the subscription; empty means AZURE_SUBSCRIPTION_ID.
	Subscription string `toml:"subscription" required:"the id of a subscription, here or as AZURE_SUBSCRIPTION_ID"`
	azurelogin.Login
	// Endpoint is the address of Azure Resource Manager, https; empty means the address in Cloud.
	Endpoint string `toml:"endpoint"`
	// Audience is the service that access tokens are requested for; empty means Endpoint, or the
	// default of Cloud.
	Audience string `toml:"audience"`
	// Timeout limits one call, including the response.
	Timeout time.Duration `toml:"timeout" default:"20s" above:"0s" must:"more than 0, such as \"20s\""`
	// ReadsPerSecond and WritesPerSecond limit the fleet's calls. The bursts are 10 seconds of
	// reads and 20 seconds of writes.
	ReadsPerSecond  int `toml:"reads_per_second" default:"20" min:"1" max:"100000"`
	WritesPerSecond int `toml:"writes_per_second" default:"5" min:"1" max:"100000"`
	// SetWritesPerMinute limits the changes to each scale set. The burst is two and a half minutes
	// of changes.
	SetWritesPerMinute int `toml:"set_writes_per_minute" default:"4" min:"1" max:"100000"`
	// ListBy determines how scale sets are listed: "auto", "subscription" or
	// "resource-groups".
	ListBy string `toml:"list_by" default:"auto" values:"auto subscription resource-groups" must:"one of \"auto\", \"subscription\", \"resource-groups\""`
	// Addresses determines which addresses are queried: "private" or "none".
	Addresses string `toml:"addresses" default:"private" values:"private none" must:"one of \"private\", \"none\""`
	// WhileUpdating is the effect of an update of the set on writes: "hold" or "write".
	WhileUpdating string `toml:"while_updating" default:"hold" values:"hold write" must:"one of \"hold\", \"write\""`
	// WhileUpgrading is the effect of a rolling upgrade on writes: "hold" or "write".
	WhileUpgrading string `toml:"while_upgrading" default:"hold" values:"hold write" must:"one of \"hold\", \"write\""`
}

// SetDefaults sets missing values from the environment or to their defaults.
func (c *Config) SetDefaults() {
	c.Login.SetDefaults()
	c.Subscription = cmp.Or(c.Subscription, os.Getenv("AZURE_SUBSCRIPTION_ID"))
	settings.SetDefaults(c)
}

// CallTimeout returns the timeout of a call.
func (c *Config) CallTimeout() time.Duration { return c.Timeout }

// Validate returns all errors in the configuration, with paths relative to the fleet's table.
// SetDefaults must be called first.
func (c *Config) Validate() []settings.FieldError {
	errs := settings.FieldErrors(settings.Validate(c))
	if strings.ContainsAny(c.Subscription, "/ ") {
		errs.Add("subscription", strconv.Quote(c.Subscription), "must be a subscription ID without slashes")
	}
	if detail := azurelogin.CheckHTTPS(c.Endpoint); c.Endpoint != "" && detail != "" {
		errs.Add("endpoint", httpclient.QuoteAddress(c.Endpoint), detail)
	}
	return append(errs, c.Login.Validate()...)
}

func (c *Config) services() cloud.Configuration {
	configuration := azurelogin.Configuration(&c.Login)
	manager := configuration.Services[cloud.ResourceManager]
	if c.Endpoint != "" {
		manager = cloud.ServiceConfiguration{Endpoint: c.Endpoint, Audience: c.Endpoint}
	}
	manager.Audience = cmp.Or(c.Audience, manager.Audience)
	configuration.Services = map[cloud.ServiceName]cloud.ServiceConfiguration{cloud.ResourceManager: manager}
	return configuration
}

func (c *Config) address() string { return c.services().Services[cloud.ResourceManager].Endpoint }

func (c *Config) limits() platform.Limits {
	return platform.Limits{
		Calls: map[platform.Class]platform.Limit{
			platform.Read:  {PerSecond: float64(c.ReadsPerSecond), Burst: 10 * c.ReadsPerSecond},
			platform.Write: {PerSecond: float64(c.WritesPerSecond), Burst: 20 * c.WritesPerSecond},
		},
		TargetCalls: map[platform.Class]platform.Limit{
			platform.Write: {PerSecond: float64(c.SetWritesPerMinute) / 60, Burst: max(1, c.SetWritesPerMinute*5/2)},
		},
	}
}

// Engine returns a value that is equal for any two fleets of the same subscription.
func (c *Config) Engine() string {
	return targets.ServiceAddress(c.address()) + " " + strings.ToLower(c.Subscription)
}

// Kind is the fleet kind "azurevmss".
var Kind = targets.Kind{
	Name:   "azurevmss",
	Config: func() targets.Config { return new(Config) },
	Target: func() targets.Target { return new(Target) },
	Reference: targets.Reference{
		Paths:   []string{"{resource_group}/{scale_set}"},
		Example: "shop/web", Workload: "{namespace}/{name}", Around: []string{"resource_group"},
	},
	Removes: true,
	Guarded: true,
	Restart: `"az vmss rolling-upgrade start --resource-group RESOURCE_GROUP --name SCALE_SET"`,
	Without: map[string]string{
		"down, unready instances": "Azure chooses the instances unless hpad removes them by name",
		"partial write":           "Azure accepts or rejects a capacity as a whole",
		"resource use":            "resource usage of hosts comes from node_exporter through Prometheus",
	},
}

// Build builds a fleet from the table.
func (c *Config) Build(name string, env targets.Env) (targets.Fleet, error) {
	return New(name, c, env), nil
}

// Requests returns false: requests are in the target table of an autoscaler.
func (c *Config) Requests(string, string) (stated bool, at string) { return false, "" }

// Target contains the keys that identify a scale set.
type Target struct {
	// ResourceGroup and ScaleSet identify the scale set; case is ignored.
	ResourceGroup string `toml:"resource_group" required:"the name of the scale set's resource group"`
	ScaleSet      string `toml:"scale_set" required:"the name of a virtual machine scale set"`
}

// Validate returns all errors in the target table.
func (t *Target) Validate() []settings.FieldError {
	errs := settings.FieldErrors(settings.Validate(t))
	for _, name := range []struct{ field, value string }{{"resource_group", t.ResourceGroup}, {"scale_set", t.ScaleSet}} {
		if strings.Contains(name.value, "/") {
			errs.Add(name.field, strconv.Quote(name.value), "must be a name without slashes, not a resource id")
		}
	}
	return errs
}

// Name returns "resource_group/scale_set" in lower case, because Azure ignores the case.
func (t *Target) Name() string { return strings.ToLower(t.ResourceGroup + "/" + t.ScaleSet) }

type key struct{ group, set string }

func keyOf(name string) (key, error) {
	group, set, ok := strings.Cut(strings.ToLower(name), "/")
	if !ok || group == "" || set == "" || strings.Contains(set, "/") {
		return key{}, fmt.Errorf("target %q does not have the form resource_group/scale_set", name)
	}
	return key{group: group, set: set}, nil
}

func (k key) String() string { return k.group + "/" + k.set }

// keyOfID returns the key of the scale set in a resource id, such as
// "/subscriptions/S/resourceGroups/G/providers/Microsoft.Compute/virtualMachineScaleSets/V".
func keyOfID(id string) (key, bool) {
	parts := strings.Split(strings.ToLower(strings.Trim(id, "/")), "/")
	if len(parts) < 8 || parts[2] != "resourcegroups" || parts[6] != "virtualmachinescalesets" {
		return key{}, false
	}
	return key{group: parts[3], set: parts[7]}, true
}
