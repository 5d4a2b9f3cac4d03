package cluster

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/state"
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
	// fleets have what concerns each of the fleets that are shared, by its name, and wanted
	// is into how many parts they are to be divided, where that is not 1.
	fleets map[string]*config.Config
	wanted map[string]int
	// layout is how they are divided. Identities are by the names of the shards that this
	// leads to, and tell whether those of two members are the same.
	layout     layout
	identities map[string]string
	// targets are whose the targets are.
	targets config.Owners
}

// layout is into how many parts fleets are divided; 1 for those that are not in it.
type layout map[string]int

func (l layout) of(fleet string) int { return max(1, l[fleet]) }

// partMark is in the names of the shards that are parts of a fleet, and in no fleet's name.
// With nothing behind it it is the shard without state of which the configuration is the
// fleet's layout.
const partMark = state.PartMark

// layoutOf returns how fleets are divided.
func layoutOf(view View) layout {
	l := layout{}
	for shard, o := range view.Shards {
		if fleet, is := strings.CutSuffix(shard, partMark); is {
			if n, err := strconv.Atoi(o.Configuration); err == nil && n > 1 {
				l[fleet] = n
			}
		}
	}
	return l
}

// shardName returns the name of a part, from 0, of a fleet that is divided into n.
func shardName(fleet string, part, n int) string {
	if n == 1 {
		return fleet
	}
	return joined(fleet, fmt.Sprintf("%d-%d", part+1, n))
}

// joined returns the name of a shard, of a fleet and its part, "" for all of it.
func joined(fleet, part string) string {
	if part == "" {
		return fleet
	}
	return fleet + partMark + part
}

// shardNames returns the names of all parts of a fleet.
func shardNames(fleet string, n int) []string {
	names := make([]string, n)
	for part := range names {
		names[part] = shardName(fleet, part, n)
	}
	return names
}

// partNumber returns the part, from 0, that an autoscaler of a fleet with n parts is in. Of
// twice as many parts it is in that one or the one n after it.
func partNumber(autoscaler string, n int) int {
	if n == 1 {
		return 0
	}
	sum := sha256.Sum256([]byte(autoscaler))
	return int(binary.BigEndian.Uint64(sum[:]) % uint64(n))
}

// shardOf returns the shard of an autoscaler of a shared fleet.
func (p *parts) shardOf(fleet, autoscaler string) string {
	n := p.layout.of(fleet)
	return shardName(fleet, partNumber(autoscaler, n), n)
}

// shardOfTarget returns the shard of a target, of a fleet in n parts: that of its autoscaler,
// which may be one that it asks for by its labels.
func (p *parts) shardOfTarget(ref targets.Ref, aliases []string, n int) string {
	name := p.targets.Of(ref, aliases)
	if name == "" {
		name = config.LabelsName(ref)
	}
	return shardName(ref.Fleet, partNumber(name, n), n)
}

// names returns the names of a fleet's shards.
func (p *parts) names(fleet string) []string { return shardNames(fleet, p.layout.of(fleet)) }

// shards returns the names of all shards, in order.
func (p *parts) shards() []string { return slices.Sorted(maps.Keys(p.identities)) }

// divide divides a configuration into shards, of size autoscalers where they are to be
// laid out anew. The fleets of the machine itself, and sources that gather samples there,
// are not shared.
func divide(whole *config.Config, size int, l layout) parts {
	p := parts{
		whole: whole, own: part(whole), fleets: map[string]*config.Config{}, wanted: map[string]int{},
		layout: l, identities: map[string]string{}, targets: whole.Owners(),
	}
	p.own.HA = whole.HA
	maps.Copy(p.own.Sources, whole.Sources)
	for name, fleet := range whole.Fleets {
		if targets.Local(fleet.Config) {
			p.own.Fleets[name] = fleet
			continue
		}
		shared := part(whole)
		shared.Fleets[name] = fleet
		for source, c := range whole.Sources {
			if _, gathers := c.Config.(sources.Evaluator); !gathers {
				shared.Sources[source] = c
			}
		}
		p.fleets[name] = shared
		if n := whole.Parts(name, size); n > 1 {
			p.wanted[name] = n
		}
	}
	for name, a := range whole.Autoscalers {
		of := p.own
		if shared := p.fleets[a.Target.Fleet]; shared != nil {
			of = shared
		}
		of.Autoscalers[name] = a
	}
	for name, shared := range p.fleets {
		n := l.of(name)
		divided := make([]map[string]*config.Autoscaler, n)
		for part := range divided {
			divided[part] = map[string]*config.Autoscaler{}
		}
		for autoscaler, a := range shared.Autoscalers {
			divided[partNumber(autoscaler, n)][autoscaler] = a
		}
		for part, autoscalers := range divided {
			c := *shared
			c.Autoscalers = autoscalers
			p.identities[shardName(name, part, n)] = identity(&c)
		}
	}
	return p
}

// of returns what concerns some shards of a fleet that is in n parts; nil where it is not
// shared.
func (p *parts) of(fleet string, shards []string, n int) *config.Config {
	whole := p.fleets[fleet]
	if whole == nil || n == 1 {
		return whole
	}
	c := *whole
	c.Autoscalers = map[string]*config.Autoscaler{}
	for name, a := range whole.Autoscalers {
		if slices.Contains(shards, shardName(fleet, partNumber(name, n), n)) {
			c.Autoscalers[name] = a
		}
	}
	c.Heeds = func(target targets.Ref, aliases []string) bool {
		return slices.Contains(shards, p.shardOfTarget(target, aliases, n))
	}
	return &c
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

// division returns into how many parts all members would have a fleet divided, where that is
// not how it is divided, and who of them does it: the one that ranks highest of those that
// may own all of it.
func division(view View, fleet string, l layout) (into int, leader string, due bool) {
	lock, shards := fleet+partMark, shardNames(fleet, l.of(fleet))
	for _, name := range slices.Sorted(maps.Keys(view.Members)) {
		member := view.Members[name]
		able, has := true, member.Parts[fleet] > 0
		for _, shard := range shards {
			identity, known := member.Shards[shard]
			under := view.Shards[shard].Configuration
			able, has = able && known && (under == "" || under == identity), has || known
		}
		if !has { // it does not have the fleet
			continue
		}
		wants := max(1, member.Parts[fleet])
		if into != 0 && into != wants {
			return 0, "", false
		}
		into = wants
		if able && (leader == "" || rank(name, lock) > rank(leader, lock)) {
			leader = name
		}
	}
	return into, leader, leader != "" && into != l.of(fleet)
}

// rank returns how a member ranks for a shard.
func rank(member, shard string) uint64 {
	sum := sha256.Sum256([]byte(member + "\x00" + shard))
	return binary.BigEndian.Uint64(sum[:])
}
