package cluster

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"maps"
	"slices"

	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/sources"
	"github.com/hpad/hpad/targets"
)

// Own is the name of what is no shard: the fleets of the machine itself.
const Own = ""

// parts are what a configuration is divided into.
type parts struct {
	whole *config.Config
	// own has the fleets of the machine itself, and what concerns no fleet.
	own *config.Config
	// shards are by their names, those of their fleets, and identities tell whether
	// those of two members are the same.
	shards     map[string]*config.Config
	identities map[string]string
}

// divide divides a configuration into shards. The fleets of the machine itself, and
// sources that gather samples there, are not shared.
func divide(whole *config.Config) parts {
	p := parts{whole: whole, own: part(whole), shards: map[string]*config.Config{}, identities: map[string]string{}}
	p.own.HA = whole.HA
	maps.Copy(p.own.Sources, whole.Sources)
	for name, fleet := range whole.Fleets {
		if targets.Local(fleet.Config) {
			p.own.Fleets[name] = fleet
			continue
		}
		shard := part(whole)
		shard.Fleets[name] = fleet
		for source, c := range whole.Sources {
			if _, gathers := c.Config.(sources.Evaluator); !gathers {
				shard.Sources[source] = c
			}
		}
		p.shards[name] = shard
	}
	for name, a := range whole.Autoscalers {
		of := p.own
		if shard := p.shards[a.Target.Fleet]; shard != nil {
			of = shard
		}
		of.Autoscalers[name] = a
	}
	for name, shard := range p.shards {
		p.identities[name] = identity(shard)
	}
	return p
}

// part returns a configuration without fleets, sources and autoscalers.
func part(whole *config.Config) *config.Config {
	return &config.Config{
		Daemon: whole.Daemon, Fleets: map[string]config.Fleet{}, Sources: map[string]config.Source{},
		Autoscalers: map[string]*config.Autoscaler{}, Notifications: whole.Notifications, Files: whole.Files,
	}
}

// identity returns a text that two configurations of a shard have in common if they lead
// to the same decisions. What is each member's own is not in it: where it listens, its
// state, and whom it notifies.
func identity(shard *config.Config) string {
	c, standard := *shard, config.DefaultDaemon()
	c.Daemon = c.Daemon.InForce(&standard)
	c.Daemon.Writers, c.Daemon.AutoscalerSeries = nil, standard.AutoscalerSeries
	c.Notifications = nil
	sum := sha256.Sum256([]byte(c.Redacted()))
	return base64.RawURLEncoding.EncodeToString(sum[:9])
}

// assign returns who is to own each shard by what all members see alike. Of the members
// that have the configuration under which a shard is owned it is the one that ranks
// highest and has not got its share yet (rendezvous hashing with bounded loads); a shard
// without such a member has no entry.
func assign(view View) map[string]string {
	members := slices.Sorted(maps.Keys(view.Members))
	shards := map[string]bool{}
	for _, member := range view.Members {
		for shard := range member.Shards {
			shards[shard] = true
		}
	}
	if len(shards) == 0 {
		return nil
	}
	share := (len(shards) + len(members) - 1) / len(members)
	owners, loads := make(map[string]string, len(shards)), map[string]int{}
	for _, shard := range slices.Sorted(maps.Keys(shards)) {
		able := slices.DeleteFunc(slices.Clone(members), func(name string) bool {
			has, ok := view.Members[name].Shards[shard]
			under := view.Shards[shard].Configuration
			return !ok || under != "" && under != has
		})
		if len(able) == 0 {
			continue
		}
		slices.SortFunc(able, func(a, b string) int { return cmp.Compare(rank(b, shard), rank(a, shard)) })
		i := slices.IndexFunc(able, func(name string) bool { return loads[name] < share })
		owner := able[max(i, 0)]
		owners[shard] = owner
		loads[owner]++
	}
	return owners
}

// rank returns how a member ranks for a shard.
func rank(member, shard string) uint64 {
	sum := sha256.Sum256([]byte(member + "\x00" + shard))
	return binary.BigEndian.Uint64(sum[:])
}
