//go:build !noazure

package daemon

import (
	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/azurevmss"
)

var azurevmssKind = map[string]func(config.Fleet, FleetEnv) (targets.Fleet, error){"azurevmss": newAzureVMSS}

func newAzureVMSS(c config.Fleet, env FleetEnv) (targets.Fleet, error) {
	own, err := kindConfig[azurevmss.Config](c.Kind, c.Config)
	if err != nil {
		return nil, err
	}
	return azurevmss.New(c.Name, own, azurevmss.Options{Store: env.Store, Meter: env.Meter, Accounts: env.Accounts}), nil
}
