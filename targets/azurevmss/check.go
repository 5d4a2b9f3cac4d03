package azurevmss

import (
	"context"
	"fmt"

	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v7"

	"github.com/hpad/hpad/targets"
	platform "github.com/hpad/hpad/targets/cloud"
)

// noVersion is an ETag that no set has, and noInstance an instance that no set has: calls that
// name them change nothing, and still show whether they are permitted.
const (
	noVersion  = `"hpad-check"`
	noInstance = "hpad-check"
)

// Check returns the permissions of hpad for the scale sets that were read. The error has
// the missing ones, and the sets. It changes no set.
func (f *Fleet) Check(ctx context.Context) ([]string, error) {
	return targets.Ask(ctx, &f.Base, "check", func(ctx context.Context) ([]string, error) {
		found, err := f.Fleet.Check(ctx, []string{fmt.Sprintf("uses subscription %s", f.config.Subscription)}, f.tries)
		return append(found, f.Problems()...), err
	})
}

func (f *Fleet) tries(groups map[key]*platform.Group[*scaleSet]) []platform.Try[key] {
	machines := func(flexible bool) func(ctx context.Context, k key) error {
		return func(ctx context.Context, k key) error {
			if groups[k].Native.flexible != flexible {
				return nil
			}
			_, err := f.listMachines(ctx, groups[k].Native)
			return err
		}
	}
	tries := []platform.Try[key]{
		{Permission: "Microsoft.Compute/virtualMachineScaleSets/read", Each: func(ctx context.Context, k key) error {
			_, err := f.Get(ctx, k)
			return err
		}},
		{Permission: "Microsoft.Compute/virtualMachineScaleSets/virtualMachines/read with Microsoft.Compute/virtualMachineScaleSets/virtualMachines/instanceView/read", Each: machines(false)},
		{Permission: "Microsoft.Compute/virtualMachines/read with Microsoft.Compute/virtualMachines/instanceView/read", Each: machines(true)},
		{Permission: "Microsoft.Compute/virtualMachineScaleSets/rollingUpgrades/read", Each: func(ctx context.Context, k key) error {
			if !groups[k].Native.upgrading {
				return nil
			}
			_, err := f.readUpgrade(ctx, groups[k].Native)
			return err
		}},
		{Permission: "Microsoft.Compute/virtualMachineScaleSets/write", Each: func(ctx context.Context, k key) error {
			return f.write(ctx, opUpdateSet, k, func(ctx context.Context, c *client) error {
				etag := noVersion
				_, err := c.sets.BeginUpdate(ctx, groups[k].Native.group, groups[k].Native.name, armcompute.VirtualMachineScaleSetUpdate{},
					&armcompute.VirtualMachineScaleSetsClientBeginUpdateOptions{IfMatch: &etag})
				return err
			})
		}},
		{Permission: "Microsoft.Compute/virtualMachineScaleSets/delete/action", Without: "it cannot choose victims", Each: func(ctx context.Context, k key) error {
			id := noInstance
			return f.delete(ctx, k, groups[k].Native, []*string{&id})
		}},
	}
	if f.config.Addresses == AddressesNone {
		return tries
	}
	return append(tries, platform.Try[key]{
		Permission: "Microsoft.Compute/virtualMachineScaleSets/networkInterfaces/read, or Microsoft.Network/networkInterfaces/read",
		Without:    "addresses are not known",
		Each: func(ctx context.Context, k key) error {
			return f.interfaces(ctx, groups[k].Native, func(string, string, bool) {})
		},
	})
}
