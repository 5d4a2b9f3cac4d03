//go:build !noaws

package daemon

import (
	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/awsasg"
)

var awsasgKind = map[string]func(config.Fleet, FleetEnv) (targets.Fleet, error){"awsasg": newAWSASG}

func newAWSASG(c config.Fleet, env FleetEnv) (targets.Fleet, error) {
	own, err := kindConfig[awsasg.Config](c.Kind, c.Config)
	if err != nil {
		return nil, err
	}
	return awsasg.New(c.Name, own, awsasg.Options{Store: env.Store, Meter: env.Meter, Accounts: env.Accounts}), nil
}
