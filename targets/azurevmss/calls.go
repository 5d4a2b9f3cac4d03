package azurevmss

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	azpolicy "github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v7"

	"github.com/hpad/hpad/guard"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
	platform "github.com/hpad/hpad/targets/cloud"
)

// The operations, by Azure's names.
const (
	opListSets        = "VirtualMachineScaleSets_List"
	opListAllSets     = "VirtualMachineScaleSets_ListAll"
	opGetSet          = "VirtualMachineScaleSets_Get"
	opUpdateSet       = "VirtualMachineScaleSets_Update"
	opDeleteMembers   = "VirtualMachineScaleSets_DeleteInstances"
	opListMembers     = "VirtualMachineScaleSetVMs_List"
	opListMachines    = "VirtualMachines_List"
	opUpgrade         = "VirtualMachineScaleSetRollingUpgrades_GetLatest"
	opAutoscale       = "AutoscaleSettings_List"
	opInterfaces      = "NetworkInterfaces_List"
	computeVersion    = "2025-04-01"
	autoscaleVersion  = "2022-10-01"
	interfacesVersion = "2023-09-01"
	// memberInterfacesVersion is the API version for interfaces of Uniform sets.
	memberInterfacesVersion = "2018-10-01"
)

func request(ctx context.Context, c *client, path, version string) (*azpolicy.Request, error) {
	path, query, _ := strings.Cut(path, "?")
	r, err := runtime.NewRequest(ctx, http.MethodGet, runtime.JoinPaths(c.manager.Endpoint(), path))
	if err == nil {
		r.Raw().URL.RawQuery = strings.TrimSuffix("api-version="+version+"&"+query, "&")
	}
	return r, err
}

// list reads all pages of a list, one call per page. It decodes only the fields that hpad uses,
// because Azure's responses are long.
func list[T any](ctx context.Context, f *Fleet, c *client, operation, path, version string, take func(value *T)) error {
	for next, first := "", true; first || next != ""; first = false {
		var page struct {
			Value    []T    `json:"value"`
			NextLink string `json:"nextLink"`
		}
		err := f.Limiter.Do(ctx, platform.Call{Operation: operation, Class: platform.Read}, func(ctx context.Context) error {
			response, err := runtime.FetcherForNextLink(ctx, c.manager.Pipeline(), next, func(ctx context.Context) (*azpolicy.Request, error) {
				return request(ctx, c, path, version)
			}, nil)
			if err == nil {
				err = runtime.UnmarshalAsJSON(response, &page)
			}
			return err
		})
		if err != nil {
			return err
		}
		for i := range page.Value {
			take(&page.Value[i])
		}
		next = page.NextLink
	}
	return nil
}

func get[T any](ctx context.Context, f *Fleet, c *client, operation, path string) (*T, error) {
	into := new(T)
	return into, f.Limiter.Do(ctx, platform.Call{Operation: operation, Class: platform.Read}, func(ctx context.Context) error {
		r, err := request(ctx, c, path, computeVersion)
		if err != nil {
			return err
		}
		response, err := c.manager.Pipeline().Do(r)
		if err == nil && !runtime.HasStatusCode(response, http.StatusOK) {
			err = runtime.NewResponseError(response)
		}
		if err == nil {
			err = runtime.UnmarshalAsJSON(response, into)
		}
		return err
	})
}

const (
	// mostGroups is the maximum number of resource groups that ListAuto lists individually.
	mostGroups = 4
	// listing limits the number of concurrent lists.
	listing = 16
)

// scope limits a list: a resource group in lower case, or "" for the subscription.
type scope string

func (c *Config) scopes(wanted []key) []scope {
	groups := map[scope]bool{}
	for _, k := range wanted {
		groups[scope(k.group)] = true
	}
	if c.ListBy == listSubscription || c.ListBy == listAuto && len(groups) > mostGroups {
		return []scope{""}
	}
	return slices.Sorted(maps.Keys(groups))
}

func (s scope) path(subscription string) string {
	if s == "" {
		return "/subscriptions/" + subscription
	}
	return "/subscriptions/" + subscription + "/resourceGroups/" + string(s)
}

func (s scope) String() string {
	if s == "" {
		return "the subscription"
	}
	return fmt.Sprintf("resource group %q", string(s))
}

// listSets lists the scale sets in the given scopes. It returns an error if no scope could be
// listed.
func (f *Fleet) listSets(ctx context.Context, c *client, scopes []scope, wanted []key) (map[key]*platform.Group[*scaleSet], error) {
	lists := make([][]*scaleSet, len(scopes))
	errs := guard.Each(listing, scopes, func(i int, at scope) error {
		operation := opListSets
		if at == "" {
			operation = opListAllSets
		}
		return list(ctx, f, c, operation, at.path(f.config.Subscription)+"/providers/Microsoft.Compute/virtualMachineScaleSets", computeVersion, func(s *scaleSet) {
			if s.complete() {
				lists[i] = append(lists[i], s)
			}
		})
	})
	sets, failed := map[key]*scaleSet{}, map[scope]error{}
	for i, at := range scopes {
		if errs[i] != nil {
			failed[at] = fmt.Errorf("list scale sets of %v: %w", at, errs[i])
			continue
		}
		for _, s := range lists[i] {
			sets[s.key] = s
		}
	}
	if len(scopes) > 0 && len(failed) == len(scopes) {
		return nil, failed[scopes[0]]
	}
	groups := make(map[key]*platform.Group[*scaleSet], len(wanted))
	for _, k := range wanted {
		switch err := cmp.Or(failed[""], failed[scope(k.group)]); {
		case err != nil:
			groups[k] = &platform.Group[*scaleSet]{Err: err}
		case sets[k] != nil:
			groups[k] = groupOf(sets[k])
		default:
			groups[k] = &platform.Group[*scaleSet]{Err: platform.NotFound(ScaleSetNotFound, "readable scale set", k)}
		}
	}
	return groups, nil
}

func (f *Fleet) listMachines(ctx context.Context, c *client, s *scaleSet) ([]*machine, error) {
	operation, path := opListMembers, setPath(f.config, s.group, s.name)+"/virtualMachines?$expand=instanceView"
	if s.flexible {
		query := url.Values{"$filter": {"'virtualMachineScaleSet/id' eq '" + s.ID + "'"}, "$expand": {"instanceView"}}
		operation, path = opListMachines, scope(s.group).path(f.config.Subscription)+"/providers/Microsoft.Compute/virtualMachines?"+query.Encode()
	}
	var found []*machine
	err := list(ctx, f, c, operation, path, computeVersion, func(m *machine) {
		if m.complete(s.flexible) && (!s.flexible || strings.EqualFold(m.Properties.Set.ID, s.ID)) {
			found = append(found, m)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("list machines of scale set %q: %w", s.key, err)
	}
	return found, nil
}

type networkInterface struct {
	Properties struct {
		Primary bool `json:"primary"`
		Machine struct {
			ID string `json:"id"`
		} `json:"virtualMachine"`
		Configurations []struct {
			Properties struct {
				Primary bool   `json:"primary"`
				Address string `json:"privateIPAddress"`
			} `json:"properties"`
		} `json:"ipConfigurations"`
	} `json:"properties"`
}

// Facts implements cloud.Platform. It queries the addresses of machines with one list call per
// scale set. For a Flexible set, it lists the network interfaces in the set's resource group.
func (f *Fleet) Facts(ctx context.Context, c *client, unknown map[key]platform.Unknown[*scaleSet]) (map[string]*platform.Found, error) {
	if f.config.Addresses == addressesNone {
		return nil, nil
	}
	sets := slices.Collect(maps.Values(unknown))
	found := make([]map[string]*platform.Found, len(sets))
	errs := guard.Each(listing, sets, func(i int, of platform.Unknown[*scaleSet]) error {
		found[i] = map[string]*platform.Found{}
		return f.interfaces(ctx, c, of.Group.Native, func(machine, address string, primary bool) {
			if _, ok := of.Members[machine]; !ok {
				return
			}
			facts := cmp.Or(found[i][machine], &platform.Found{})
			at := len(facts.Facts.Addresses)
			if primary {
				at = 0
			}
			facts.Facts.Addresses = slices.Insert(facts.Facts.Addresses, at, address)
			found[i][machine] = facts
		})
	})
	all := map[string]*platform.Found{}
	for _, machines := range found {
		maps.Copy(all, machines)
	}
	return all, cmp.Or(errs...)
}

func (f *Fleet) interfaces(ctx context.Context, c *client, s *scaleSet, take func(machine, address string, primary bool)) error {
	base := scope(s.group).path(f.config.Subscription)
	path, version := base+"/providers/Microsoft.Compute/virtualMachineScaleSets/"+s.name+"/networkInterfaces", memberInterfacesVersion
	if s.flexible {
		path, version = base+"/providers/Microsoft.Network/networkInterfaces", interfacesVersion
	}
	err := list(ctx, f, c, opInterfaces, path, version, func(each *networkInterface) {
		for _, configuration := range each.Properties.Configurations {
			if address := configuration.Properties.Address; address != "" {
				take(strings.ToLower(each.Properties.Machine.ID), address, each.Properties.Primary && configuration.Properties.Primary)
			}
		}
	})
	if err != nil {
		return fmt.Errorf("list network interfaces of scale set %q: %w", s.key, err)
	}
	return nil
}

// autoscaleAge is the interval at which autoscale settings are listed.
const autoscaleAge = 15 * time.Second

type autoscalers struct {
	// names lists the enabled settings, by scope and scale set.
	names map[scope]map[key]string
	// err is the error of a scope that could not be listed.
	err error
}

type autoscaleSetting struct {
	Name       string `json:"name"`
	Properties struct {
		Enabled bool   `json:"enabled"`
		Target  string `json:"targetResourceUri"`
	} `json:"properties"`
}

// readAutoscalers lists the settings of the given scopes if the cached settings are old or do not
// cover a scope. If a scope cannot be listed, its cached settings are kept.
func (f *Fleet) readAutoscalers(ctx context.Context, c *client, scopes []scope) {
	last, _ := f.autoscalers.Value()
	interval := autoscaleAge
	if slices.ContainsFunc(scopes, func(at scope) bool { return last.names[at] == nil && last.names[""] == nil }) {
		interval = 0
	}
	f.autoscalers.Refresh(interval, func() (autoscalers, error) {
		next := autoscalers{names: map[scope]map[key]string{}}
		if !slices.Contains(scopes, "") {
			maps.Copy(next.names, last.names)
		}
		for _, at := range scopes {
			names := map[key]string{}
			path := at.path(f.config.Subscription) + "/providers/Microsoft.Insights/autoscalesettings"
			err := list(ctx, f, c, opAutoscale, path, autoscaleVersion, func(setting *autoscaleSetting) {
				if k, ok := keyOfID(setting.Properties.Target); ok && setting.Properties.Enabled { // enabled is false by default
					names[k] = setting.Name
				}
			})
			if err != nil {
				next.err = fmt.Errorf("list autoscale settings of %v: %w", at, err)
				maps.Copy(names, last.names[at])
			}
			next.names[at] = names
		}
		return next, nil
	})
}

// hold returns the hold for a set with an enabled autoscale setting, or nil.
func (a autoscalers) hold(k key) *policy.Hold {
	name := cmp.Or(a.names[""][k], a.names[scope(k.group)][k])
	if name == "" {
		return nil
	}
	return &policy.Hold{
		Reason:  platform.NativeAutoscaler,
		Message: fmt.Sprintf("autoscale setting %q of Azure Monitor is enabled for scale set %q; disable it so that hpad can change the count", name, k),
	}
}

type rollingUpgrade struct {
	Properties struct {
		Status struct {
			Code string `json:"code"`
		} `json:"runningStatus"`
		Progress struct {
			Done    int `json:"successfulInstanceCount"`
			At      int `json:"inProgressInstanceCount"`
			Pending int `json:"pendingInstanceCount"`
			Failed  int `json:"failedInstanceCount"`
		} `json:"progress"`
	} `json:"properties"`
}

// readUpgrade returns the progress of a rolling upgrade of a set as a sentence; "" if there is
// none.
func (f *Fleet) readUpgrade(ctx context.Context, c *client, s *scaleSet) (string, error) {
	found, err := get[rollingUpgrade](ctx, f, c, opUpgrade, setPath(f.config, s.group, s.name)+"/rollingUpgrades/latest")
	if errors.Is(err, targets.ErrTargetNotFound) {
		return "", nil // there has never been a rolling upgrade
	}
	if err != nil {
		return "", fmt.Errorf("read the rolling upgrade of scale set %q: %w", s.key, err)
	}
	if !strings.EqualFold(found.Properties.Status.Code, string(armcompute.RollingUpgradeStatusCodeRollingForward)) {
		return "", nil
	}
	progress := found.Properties.Progress
	return fmt.Sprintf("a rolling upgrade of scale set %q is in progress: %d machines are done, %d in progress, %d pending, %d failed",
		s.key, progress.Done, progress.At, progress.Pending, progress.Failed), nil
}
