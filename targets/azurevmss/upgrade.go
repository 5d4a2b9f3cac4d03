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

// mayUpgrade reports whether a rolling upgrade of a set may be in progress.
func mayUpgrade(s *scaleSet, machines []*machine) bool {
	return s.upgrading && (s.busy() || slices.ContainsFunc(machines, func(m *machine) bool { return m.outdated() }))
}

// rollingUpgrade is the latest rolling upgrade of a set.
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

// readUpgrade returns the progress of a rolling upgrade of a set in words; "" if none is
// in progress.
func (f *Fleet) readUpgrade(ctx context.Context, s *scaleSet) (string, error) {
	found, err := get[rollingUpgrade](ctx, f, opUpgrade, s.path(f.config)+"/rollingUpgrades/latest")
	if errors.Is(err, targets.ErrTargetNotFound) {
		return "", nil // there never was one
	}
	if err != nil {
		return "", fmt.Errorf("read the rolling upgrade of scale set %q: %w", s.key, err)
	}
	if !strings.EqualFold(found.Properties.Status.Code, string(armcompute.RollingUpgradeStatusCodeRollingForward)) {
		return "", nil
	}
	progress := found.Properties.Progress
	return fmt.Sprintf("a rolling upgrade of scale set %q is in progress: %d machines are done, %d at it, %d pending, %d failed",
		s.key, progress.Done, progress.At, progress.Pending, progress.Failed), nil
}
