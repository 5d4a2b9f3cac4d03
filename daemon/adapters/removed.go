package adapters

import (
	"context"
	"os"
	"path/filepath"

	"go.uber.org/zap"

	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/kinds"
)

// outputDir returns the directory with the process output of all fleets.
func outputDir(stateDir string) string { return filepath.Join(stateDir, "output") }

// EndRemoved stops the processes of fleets that were removed from the configuration, or got another
// kind, while the daemon did not run. It starts such a fleet without targets, which stops them in the
// background.
func (k *Manager) EndRemoved(ctx context.Context, c *config.Config) {
	entries, _ := os.ReadDir(outputDir(c.Daemon.StateDir))
	for _, entry := range entries {
		name := entry.Name()
		if kinds.Fleets[c.Fleets[name].Kind].Hosted {
			continue
		}
		for _, kind := range kinds.Fleets {
			if !kind.Hosted {
				continue
			}
			empty := kind.Config()
			empty.SetDefaults()
			fleet, err := k.buildFleet(config.Fleet{Name: name, Kind: kind.Name, Config: empty}, c.Daemon)
			if err == nil {
				err = start(ctx, fleet.built)
			}
			if err != nil {
				k.env.Log.Error("end removed fleet failed", zap.String("fleet", name), zap.NamedError("err", err))
				continue
			}
			k.working.Go(func() {
				<-k.running.Done()
				_ = Close(fleet.built) // the next start continues
			})
		}
	}
}
