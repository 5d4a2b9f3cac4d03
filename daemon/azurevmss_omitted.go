//go:build noazure

package daemon

import (
	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/targets"
)

var azurevmssKind map[string]func(config.Fleet, FleetEnv) (targets.Fleet, error)
