//go:build noazure

package daemon

import "github.com/hpad/hpad/daemon/config"

var azurevmssKind map[string]func(config.Fleet, FleetEnv) (Fleet, error)
