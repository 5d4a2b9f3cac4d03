package azurevmss

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"slices"

	azpolicy "github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v7"

	"github.com/hpad/hpad/guard"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
	platform "github.com/hpad/hpad/targets/cloud"
)

// Fleet reads and scales the virtual machine scale sets of one subscription. It is
// safe for concurrent use.
type Fleet struct {
	platform.Fleet[key, *scaleSet, client]
	config      *Config
	autoscalers platform.CachedDetail[autoscalers]
}

// New returns a fleet, which connects on first use. The configuration must be valid and have its
// defaults set; New does not modify it.
func New(name string, config *Config, env targets.Env) *Fleet {
	f := &Fleet{config: config}
	f.Make = func(context.Context) (*client, error) { return newClient(config) }
	f.Files = func() []string { return []string{config.CAFile, config.ClientSecretFile, config.ClientCertificateFile} }
	f.Drop = func(old *client) { old.transport.CloseIdleConnections() }
	f.Limiter = platform.NewLimiter(config.limits(), env.Meter)
	f.Limiter.Timeout, f.Limiter.Errors, f.Limiter.Lease = config.Timeout, &errorClasses, env.Lease
	f.Name, f.Place, f.Parse = name, " at "+config.address(), keyOf
	f.Platform, f.Memory, f.Noun, f.DeletesAtOnce = f, platform.NewMemory(env.Store), "scale set", math.MaxInt32
	f.FactsProblem = `addresses of machines are unknown, so match = "address" matches no series (to disable the queries for addresses, set addresses = "none")`
	f.Missing = func() targets.MissingDetail {
		known, _ := f.autoscalers.Value()
		return targets.MissingDetail{Text: "autoscale settings of scale sets are unknown (Microsoft.Insights/autoscaleSettings/read)", Err: known.err}
	}
	return f
}

// List implements cloud.Platform with one list call for the subscription, or with one per resource
// group if there are few.
func (f *Fleet) List(ctx context.Context, c *client, names []key) (map[key]*platform.Group[*scaleSet], error) {
	scopes := f.config.scopes(names)
	var groups map[key]*platform.Group[*scaleSet]
	var calls guard.Group
	calls.Go(func() (err error) {
		groups, err = f.listSets(ctx, c, scopes, names)
		return err
	})
	calls.Go(func() error {
		f.readAutoscalers(ctx, c, scopes)
		return nil
	})
	err := calls.Wait()
	return groups, err
}

// Get implements cloud.Platform.
func (f *Fleet) Get(ctx context.Context, c *client, k key) (*platform.Group[*scaleSet], error) {
	s, err := get[scaleSet](ctx, f, c, opGetSet, setPath(f.config, k.group, k.set))
	if err == nil && !s.complete() {
		err = fmt.Errorf("%w: the response names no scale set", targets.ErrTransient)
	}
	if err != nil {
		return nil, fmt.Errorf("read scale set %q: %w", k, err)
	}
	s.key = k
	return groupOf(s), nil
}

// Members implements cloud.Platform. It lists the machines of a set, and reads its rolling
// upgrade if there may be one.
func (f *Fleet) Members(ctx context.Context, c *client, _ key, g *platform.Group[*scaleSet]) (*platform.Listing, error) {
	machines, err := f.listMachines(ctx, c, g.Native)
	if err != nil {
		return nil, err
	}
	listed := &platform.Listing{Notice: failedMachines(machines)}
	for _, m := range machines {
		if m.counts() {
			listed.Members = append(listed.Members, m.member(g.Native.monitored))
		}
	}
	if s := g.Native; s.upgrading && (s.busy() || slices.ContainsFunc(machines, (*machine).outdated)) {
		listed.Upgrade, err = f.readUpgrade(ctx, c, g.Native)
	}
	return listed, err
}

// Hold implements cloud.Platform.
func (f *Fleet) Hold(k key, g *platform.Group[*scaleSet], listed *platform.Listing) *policy.Hold {
	s, upgrade := g.Native, ""
	if listed != nil {
		upgrade = listed.Upgrade
	}
	if s.state == stateDeleting {
		return &policy.Hold{Reason: ScaleSetDeleting, Message: fmt.Sprintf("scale set %q is being deleted", k)}
	}
	known, _ := f.autoscalers.Value()
	if hold := known.hold(k); hold != nil {
		return hold
	}
	if upgrade != "" && f.config.WhileUpgrading == Hold {
		return &policy.Hold{Reason: platform.RolloutInProgress, Message: upgrade}
	}
	if (s.busy() || g.Lagging) && f.config.WhileUpdating == Hold && upgrade == "" {
		return &policy.Hold{
			Reason:  ScaleSetUpdating,
			Message: fmt.Sprintf(`Azure is still updating scale set %q (provisioning state %s); to scale it during updates, set while_updating = "write"`, k, s.state),
		}
	}
	return nil
}

// Resize implements cloud.Platform. It sends the ETag of the last reading, so that it cannot
// overwrite another change.
func (f *Fleet) Resize(ctx context.Context, c *client, k key, g *platform.Group[*scaleSet], size int32) (etag string, err error) {
	s := g.Native
	parameters := armcompute.VirtualMachineScaleSetUpdate{SKU: &armcompute.SKU{Name: &s.SKU.Name, Capacity: new(int64(size))}}
	if s.SKU.Tier != "" {
		parameters.SKU.Tier = &s.SKU.Tier
	}
	options := &armcompute.VirtualMachineScaleSetsClientBeginUpdateOptions{}
	if s.ETag != "" {
		options.IfMatch = &s.ETag
	}
	var response *http.Response
	err = f.write(ctx, opUpdateSet, k, func(ctx context.Context) error {
		_, err := c.sets.BeginUpdate(azpolicy.WithCaptureResponse(ctx, &response), s.group, s.name, parameters, options)
		return err
	})
	return etagIn(response, err), err
}

// Delete implements cloud.Platform. Azure rejects the whole call if one machine is already gone.
func (f *Fleet) Delete(ctx context.Context, c *client, k key, g *platform.Group[*scaleSet], handles []string) ([]string, error) {
	ids := armcompute.VirtualMachineScaleSetVMInstanceRequiredIDs{InstanceIDs: to.SliceOfPtrs(handles...)}
	err := f.write(ctx, opDeleteMembers, k, func(ctx context.Context) error {
		_, err := c.sets.BeginDeleteInstances(ctx, g.Native.group, g.Native.name, ids, nil)
		return err
	})
	if err != nil {
		return nil, err
	}
	return handles, nil
}

func (f *Fleet) write(ctx context.Context, operation string, k key, do func(ctx context.Context) error) error {
	return f.Limiter.Do(ctx, platform.Call{Operation: operation, Class: platform.Write, Target: k.String()}, do)
}

// Explain implements cloud.Platform. Azure reports only that the last change failed; failed
// machines have their own reasons.
func (f *Fleet) Explain(_ context.Context, _ *client, k key, g *platform.Group[*scaleSet]) (*policy.Notice, error) {
	if g.Native.state != stateFailed {
		return nil, nil
	}
	return shortage("", fmt.Sprintf("the last change to scale set %q failed", k)), nil
}

// etagIn returns the ETag in the response to a write; "" if there is none.
func etagIn(response *http.Response, err error) string {
	var set scaleSet
	if err == nil && response != nil {
		_ = runtime.UnmarshalAsJSON(response, &set) // a response without a body has no ETag
	}
	return set.ETag
}

// noVersion is an ETag that no set has, and noInstance is an instance id that no set has. Calls
// with them change nothing, but reveal missing permissions.
const (
	noVersion  = `"hpad-check"`
	noInstance = "hpad-check"
)

// Tests implements cloud.Platform.
func (f *Fleet) Tests(_ context.Context, c *client, groups map[key]*platform.Group[*scaleSet]) (string, []platform.PermissionTest[key]) {
	identity := "uses subscription " + f.config.Subscription
	machines := func(flexible bool) func(ctx context.Context, k key) error {
		return func(ctx context.Context, k key) error {
			if groups[k].Native.flexible != flexible {
				return nil
			}
			_, err := f.listMachines(ctx, c, groups[k].Native)
			return err
		}
	}
	tries := []platform.PermissionTest[key]{
		{Permission: "Microsoft.Compute/virtualMachineScaleSets/read", Each: func(ctx context.Context, k key) error {
			_, err := f.Get(ctx, c, k)
			return err
		}},
		{Permission: "Microsoft.Compute/virtualMachineScaleSets/virtualMachines/read with Microsoft.Compute/virtualMachineScaleSets/virtualMachines/instanceView/read", Each: machines(false)},
		{Permission: "Microsoft.Compute/virtualMachines/read with Microsoft.Compute/virtualMachines/instanceView/read", Each: machines(true)},
		{Permission: "Microsoft.Compute/virtualMachineScaleSets/rollingUpgrades/read", Each: func(ctx context.Context, k key) error {
			if !groups[k].Native.upgrading {
				return nil
			}
			_, err := f.readUpgrade(ctx, c, groups[k].Native)
			return err
		}},
		{Permission: "Microsoft.Compute/virtualMachineScaleSets/write", Each: func(ctx context.Context, k key) error {
			return f.write(ctx, opUpdateSet, k, func(ctx context.Context) error {
				_, err := c.sets.BeginUpdate(ctx, groups[k].Native.group, groups[k].Native.name, armcompute.VirtualMachineScaleSetUpdate{},
					&armcompute.VirtualMachineScaleSetsClientBeginUpdateOptions{IfMatch: new(noVersion)})
				return err
			})
		}},
		{Permission: "Microsoft.Compute/virtualMachineScaleSets/delete/action", Without: "hpad cannot choose victims", Each: func(ctx context.Context, k key) error {
			_, err := f.Delete(ctx, c, k, groups[k], []string{noInstance})
			return err
		}},
	}
	if f.config.Addresses == addressesNone {
		return identity, tries
	}
	return identity, append(tries, platform.PermissionTest[key]{
		Permission: "Microsoft.Compute/virtualMachineScaleSets/networkInterfaces/read, or Microsoft.Network/networkInterfaces/read",
		Without:    "addresses are unknown",
		Each: func(ctx context.Context, k key) error {
			return f.interfaces(ctx, c, groups[k].Native, func(string, string, bool) {})
		},
	})
}
