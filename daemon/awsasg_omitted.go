//go:build noaws

package daemon

import (
	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/targets"
)

var awsasgKind map[string]func(config.Fleet, FleetEnv) (targets.Fleet, error)
