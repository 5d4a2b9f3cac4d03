package daemon

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"

	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/sources"
	"github.com/hpad/hpad/sources/embedded"
	"github.com/hpad/hpad/sources/prometheus"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/compose"
	"github.com/hpad/hpad/targets/nomad"
	"github.com/hpad/hpad/targets/process"
	"github.com/hpad/hpad/targets/swarm"
	"github.com/hpad/hpad/targets/systemd"
)

// BuiltIn answers the kinds that hpad comes with.
func BuiltIn() Kinds {
	kinds := Kinds{
		Fleets: map[string]func(config.Fleet, FleetEnv) (targets.Fleet, error){
			"process": newProcess,
			"nomad":   newNomad,
			"compose": newCompose,
			"swarm":   newSwarm,
			"systemd": newSystemd,
		},
		Sources: map[string]func(config.Source, SourceEnv) (sources.Source, error){
			"prometheus": newPrometheus,
			"embedded":   newEmbedded,
		},
	}
	maps.Copy(kinds.Fleets, awsasgKind)
	maps.Copy(kinds.Fleets, azurevmssKind) // which a build may leave out
	maps.Copy(kinds.Fleets, gcemigKind)
	return kinds
}

// kindConfig answers a kind's own configuration, which package config made by
// the same kind's name.
func kindConfig[C any](kind string, c any) (*C, error) {
	own, ok := c.(*C)
	if !ok {
		return nil, fmt.Errorf("kind %q does not take a configuration of type %T", kind, c)
	}
	return own, nil
}

func newProcess(c config.Fleet, env FleetEnv) (targets.Fleet, error) {
	own, err := kindConfig[process.Config](c.Kind, c.Config)
	if err != nil {
		return nil, err
	}
	return process.New(c.Name, own, process.Options{Store: env.Store, Earlier: env.Earlier, Output: env.Output}), nil
}

func newNomad(c config.Fleet, env FleetEnv) (targets.Fleet, error) {
	own, err := kindConfig[nomad.Config](c.Kind, c.Config)
	if err != nil {
		return nil, err
	}
	return nomad.New(c.Name, own, nomad.Options{Store: env.Store})
}

func newCompose(c config.Fleet, env FleetEnv) (targets.Fleet, error) {
	own, err := kindConfig[compose.Config](c.Kind, c.Config)
	if err != nil {
		return nil, err
	}
	return compose.New(c.Name, own, compose.Options{Store: env.Store, Now: env.Now, DryRun: env.DryRun})
}

func newSwarm(c config.Fleet, _ FleetEnv) (targets.Fleet, error) {
	own, err := kindConfig[swarm.Config](c.Kind, c.Config)
	if err != nil {
		return nil, err
	}
	return swarm.New(c.Name, own)
}

func newSystemd(c config.Fleet, env FleetEnv) (targets.Fleet, error) {
	own, err := kindConfig[systemd.Config](c.Kind, c.Config)
	if err != nil {
		return nil, err
	}
	return systemd.New(c.Name, own, systemd.Options{Store: env.Store, Earlier: env.Earlier}), nil
}

func newPrometheus(c config.Source, env SourceEnv) (sources.Source, error) {
	own, err := kindConfig[prometheus.Config](c.Kind, c.Config)
	if err != nil {
		return nil, err
	}
	return prometheus.New(c.Name, own, env.Answers)
}

func newEmbedded(c config.Source, env SourceEnv) (sources.Source, error) {
	own, err := kindConfig[embedded.Config](c.Kind, c.Config)
	if err != nil {
		return nil, err
	}
	options := embedded.Options{
		Dir:     filepath.Join(env.StateDir, "embedded", c.Name),
		Samples: env.Samples, Answers: env.Answers,
		Discover: func(ctx context.Context, fleet, target string) ([]embedded.Endpoint, error) {
			reading, err := env.Discover(ctx, fleet, target)
			if err != nil {
				return nil, err
			}
			endpoints := make([]embedded.Endpoint, 0, len(reading.Instances))
			for i, instance := range reading.Instances {
				if instance.Deleting || i >= len(reading.Locations) {
					continue
				}
				location := reading.Locations[i]
				endpoints = append(endpoints, embedded.Endpoint{
					ID: instance.ID, Addresses: location.Addresses, Ports: location.Ports, Labels: location.Labels,
				})
			}
			return endpoints, nil
		},
	}
	if env.Clock != nil {
		options.Clock = env.Clock
	}
	return embedded.New(c.Name, own, options)
}
