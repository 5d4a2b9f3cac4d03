package cluster

import (
	"crypto/sha256"
	"encoding/base64"
	"maps"
	"slices"

	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/sources"
	"github.com/hpad/hpad/targets"
)

// Own stands for the fleets of the host itself where a function takes or returns the name of
// a shared fleet.
const Own = ""

// configuration is a configuration, separated by fleet.
type configuration struct {
	whole *config.Config
	// own has the fleets of the host itself, and everything that concerns no fleet.
	own *config.Config
	// fleets has the configuration of each shared fleet, by its name.
	fleets map[string]*config.Config
	// identities has a hash of the configuration of each shared fleet, by its name. Two
	// members with equal hashes make the same decisions.
	identities map[string]string
}

// separate separates a configuration by fleet. Fleets of the host itself, and sources that
// collect samples there, are not shared.
func separate(whole *config.Config) *configuration {
	c := &configuration{whole: whole, own: emptied(whole), fleets: map[string]*config.Config{}, identities: map[string]string{}}
	c.own.HA = whole.HA
	maps.Copy(c.own.Sources, whole.Sources)
	for name, fleet := range whole.Fleets {
		if targets.Local(fleet.Config) {
			c.own.Fleets[name] = fleet
			continue
		}
		shared := emptied(whole)
		shared.Fleets[name] = fleet
		for source, s := range whole.Sources {
			if _, local := s.Config.(sources.Evaluator); !local {
				shared.Sources[source] = s
			}
		}
		c.fleets[name] = shared
	}
	for name, a := range whole.Autoscalers {
		of := c.own
		if shared := c.fleets[a.Target.Fleet]; shared != nil {
			of = shared
		}
		of.Autoscalers[name] = a
	}
	for name, shared := range c.fleets {
		c.identities[name] = identity(shared)
	}
	return c
}

func (c *configuration) names() []string { return slices.Sorted(maps.Keys(c.fleets)) }

// emptied returns a copy of a configuration without fleets, sources and autoscalers.
func emptied(whole *config.Config) *config.Config {
	return &config.Config{
		Daemon: whole.Daemon, Fleets: map[string]config.Fleet{}, Sources: map[string]config.Source{},
		Autoscalers: map[string]*config.Autoscaler{}, Notifications: whole.Notifications, Files: whole.Files,
	}
}

// identity returns a hash of everything in the configuration of a fleet that affects
// decisions. Settings of a single member are left out: addresses, state and notifications.
func identity(fleet *config.Config) string {
	c, standard := *fleet, config.DefaultDaemon()
	c.Daemon = c.Daemon.InForce(&standard)
	c.Daemon.Writers, c.Daemon.AutoscalerSeries = nil, standard.AutoscalerSeries
	c.Notifications = nil
	sum := sha256.Sum256([]byte(c.Redacted()))
	return base64.RawURLEncoding.EncodeToString(sum[:9])
}
