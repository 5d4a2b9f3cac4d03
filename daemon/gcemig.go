//go:build !nogce

package daemon

import (
	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/gcemig"
)

var gcemigKind = map[string]func(config.Fleet, FleetEnv) (targets.Fleet, error){"gcemig": newGCEMIG}

func newGCEMIG(c config.Fleet, env FleetEnv) (targets.Fleet, error) {
	own, err := kindConfig[gcemig.Config](c.Kind, c.Config)
	if err != nil {
		return nil, err
	}
	return gcemig.New(c.Name, own, gcemig.Options{Store: env.Store, Meter: env.Meter, Accounts: env.Accounts}), nil
}
