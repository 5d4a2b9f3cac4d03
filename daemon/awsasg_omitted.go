//go:build noaws

package daemon

import "github.com/hpad/hpad/daemon/config"

var awsasgKind map[string]func(config.Fleet, FleetEnv) (Fleet, error)
