//go:build nogce

package daemon

import "github.com/hpad/hpad/daemon/config"

var gcemigKind map[string]func(config.Fleet, FleetEnv) (Fleet, error)
