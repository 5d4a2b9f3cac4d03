package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	promconfig "github.com/prometheus/common/config"

	"github.com/hpad/hpad/cmd/hpad/live"
	"github.com/hpad/hpad/daemon/cluster"
	"github.com/hpad/hpad/daemon/config"
)

// storeCheckTimeout limits the check of the cluster store.
const storeCheckTimeout = 10 * time.Second

// checkCluster reads the files that [ha] references, connects to the cluster store, and compares
// the configuration with the configurations under which the fleets are owned. It writes nothing.
func checkCluster(ctx context.Context, c *config.Config) []live.Finding {
	if c.HA == nil {
		return nil
	}
	var findings []live.Finding
	if err := checkMemberFiles(&c.HA.Members); err != nil {
		findings = append(findings, live.Finding{Key: "ha.members", Text: err.Error(), Problem: true})
	}
	coordinator, err := newCoordinator(c.HA)
	if err != nil {
		return append(findings, live.Finding{Key: "ha", Text: err.Error(), Problem: true})
	}
	ctx, cancel := context.WithTimeout(ctx, storeCheckTimeout)
	defer cancel()
	more, err := compareOwned(ctx, c, coordinator)
	if err = errors.Join(err, coordinator.Close()); err != nil {
		return append(findings, live.Finding{Key: "ha", Text: err.Error(), Problem: true})
	}
	return append(findings, more...)
}

// compareOwned returns a finding that lists the members of the cluster, and a finding for each
// fleet that a member with this configuration cannot take over.
func compareOwned(ctx context.Context, c *config.Config, coordinator cluster.Coordinator) ([]live.Finding, error) {
	view, err := coordinator.View(ctx)
	if err != nil {
		return nil, err
	}
	members := strings.Join(slices.Sorted(maps.Keys(view.Members)), ", ")
	findings := []live.Finding{{Key: "ha", Text: "the store responds; running members: " + cmp.Or(members, "none")}}
	shared, _ := c.Movable()
	for _, fleet := range shared {
		owned := view.Fleets[fleet]
		if owned.Configuration == "" {
			continue
		}
		key, err := coordinator.Key(ctx) // the key exists, because the fleet had an owner
		if err != nil {
			return nil, err
		}
		if parts := config.Difference(c.Identity(fleet, key), owned.Configuration); parts != "" {
			owner := "owner"
			if owned.Owner == "" {
				owner = "last owner"
			}
			findings = append(findings, live.Finding{Key: "fleets." + fleet, Text: fmt.Sprintf(
				"differs from the configuration of the %s, %s, in %s; members with this configuration cannot take the fleet over",
				owner, owned.Last, parts)})
		}
	}
	return findings, nil
}

// checkMemberFiles reads the files that [ha.members] references.
func checkMemberFiles(m *config.HAMembers) error {
	if m.PasswordFile != "" {
		if _, err := os.ReadFile(m.PasswordFile); err != nil {
			return fmt.Errorf("password_file: %w", err)
		}
	}
	_, err := promconfig.NewTLSConfig(&promconfig.TLSConfig{
		CAFile: m.CAFile, CertFile: m.CertFile, KeyFile: m.KeyFile, MinVersion: promconfig.TLSVersion(tls.VersionTLS12),
	})
	return err
}
