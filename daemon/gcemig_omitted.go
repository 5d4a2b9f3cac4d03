//go:build nogce

package daemon

import (
	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/targets"
)

var gcemigKind map[string]func(config.Fleet, FleetEnv) (targets.Fleet, error)
