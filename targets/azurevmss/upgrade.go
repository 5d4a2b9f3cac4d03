package azurevmss

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v7"

	"github.com/hpad/hpad/targets"
)

// mayUpgrade reports whether a rolling upgrade of a set may be under way.
func mayUpgrade(s *scaleSet, machines []*machine) bool {
	return s.upgrading && (s.busy() || slices.ContainsFunc(machines, func(m *machine) bool { return m.outdated }))
}

// readUpgrade returns how far a rolling upgrade of a set is, in words; "" when none
// is under way.
func (f *Fleet) readUpgrade(ctx context.Context, s *scaleSet) (string, error) {
	var found armcompute.VirtualMachineScaleSetRollingUpgradesClientGetLatestResponse
	err := f.read(ctx, opUpgrade, func(ctx context.Context, c *client) error {
		var err error
		found, err = c.upgrades.GetLatest(ctx, s.group, s.name, nil)
		return err
	})
	if errors.Is(err, targets.ErrTargetNotFound) {
		return "", nil // there never was one
	}
	if err != nil {
		return "", fmt.Errorf("read the rolling upgrade of scale set %q: %w", s.key, err)
	}
	properties := found.Properties
	if properties == nil || properties.RunningStatus == nil ||
		!strings.EqualFold(string(value(properties.RunningStatus.Code)), string(armcompute.RollingUpgradeStatusCodeRollingForward)) {
		return "", nil
	}
	text := fmt.Sprintf("a rolling upgrade of scale set %q is under way", s.key)
	if progress := properties.Progress; progress != nil {
		text += fmt.Sprintf(": %d machines are done, %d at it, %d pending, %d failed", value(progress.SuccessfulInstanceCount),
			value(progress.InProgressInstanceCount), value(progress.PendingInstanceCount), value(progress.FailedInstanceCount))
	}
	return text, nil
}
