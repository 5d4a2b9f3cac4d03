package config

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"

	"github.com/hpad/hpad/sources"
)

// identityParts names the parts of an identity in their order.
var identityParts = []string{daemonKey, "fleet", sourcesKey, autoscalersKey}

// partLength is the length of each part of an identity in characters.
const partLength = 6

// Identity returns a hash of the written tables that affect decisions about a fleet.
// Dots separate its four parts: [daemon], the fleet, its sources and its autoscalers. Without the
// key, the hashed values cannot be guessed. The identity does not depend on defaults, so that an
// upgrade does not change it. It also does not depend on sync_period and on the settings of a
// single member.
func (c *Config) Identity(fleet string, key []byte) string {
	daemon := c.decisive()
	used, autoscalers := map[string]Written{}, map[string]Written{}
	add := func(source string) {
		if s, ok := c.Sources[source]; ok {
			if _, local := s.Config.(sources.Evaluator); !local {
				used[source] = s.Written
			}
		}
	}
	for name, a := range c.Autoscalers {
		if a.Target.Fleet != fleet {
			continue
		}
		autoscalers[name] = a.Written
		for _, in := range a.Inputs {
			add(in.Source)
		}
	}
	if c.Fleets[fleet].Discover { // labels can use every source
		for source := range c.Sources {
			add(source)
		}
	}
	parts := make([]string, len(identityParts))
	for i, tables := range []any{daemon, c.Fleets[fleet].Written, used, autoscalers} {
		sum := hmac.New(sha256.New, key)
		sum.Write([]byte(identityParts[i]))
		sum.Write(marshal(tables))
		parts[i] = base64.RawURLEncoding.EncodeToString(sum.Sum(nil))[:partLength]
	}
	return strings.Join(parts, ".")
}

// decisive returns the keys of [daemon] that affect decisions, as they are written, without
// sync_period, which may differ between members.
func (c *Config) decisive() map[string]any {
	daemon := c.Written[daemonKey].table()
	for name := range daemon {
		if name == periodKey || daemonFields.ByKey[name].Tag.Get("decides") != "true" {
			delete(daemon, name)
		}
	}
	return daemon
}

// ownKeys are the keys of an autoscaler that each have their own part in its digest. Digests are
// stored, so the order must not change.
var ownKeys = []string{"target", minKey, maxKey, metricsKey, "behavior"}

// digestLength is the length of each part of a digest in characters.
const digestLength = 4

// Digests returns a function that returns a hash of the written tables that affect an autoscaler.
// The hash has one part for each change that [Autoscaler.ChangesSince] distinguishes. The function
// is not safe for concurrent use.
func (c *Config) Digests() func(a *Autoscaler) string {
	shared, connections := digestOf(marshal(c.decisive())), map[string]string{}
	fleets := map[string]map[string]map[string]json.RawMessage{} // the tables of targets
	return func(a *Autoscaler) string {
		own := a.Written.parts()
		fleet := join(fleetsKey, a.Target.Fleet)
		if fleets[fleet] == nil { // the first autoscaler of the fleet
			fleets[fleet] = map[string]map[string]json.RawMessage{}
			table := c.Fleets[a.Target.Fleet].Written.parts()
			for _, name := range targetTables {
				fleets[fleet][name] = Written(table[name]).parts()
				delete(table, name)
			}
			connections[fleet] = digestOf(marshal(table))
		}
		used := []byte(connections[fleet])
		for _, name := range targetTables {
			used = append(used, fleets[fleet][name][a.Target.Name]...)
		}
		var sources []byte
		for _, in := range a.Inputs {
			if _, ok := connections[in.Source]; !ok {
				connections[in.Source] = digestOf([]byte(c.Sources[in.Source].Written))
			}
			sources = append(sources, connections[in.Source]...)
		}
		digests := []string{shared, digestOf(used), digestOf(sources)}
		for _, key := range ownKeys {
			digests = append(digests, digestOf(own[key]))
			delete(own, key)
		}
		return strings.Join(digests, "") + digestOf(marshal(own))
	}
}

// parts returns the undecoded values of the table by key.
func (w Written) parts() map[string]json.RawMessage {
	parts := map[string]json.RawMessage{}
	_ = json.Unmarshal([]byte(w), &parts) // as in table
	return parts
}

// marshal returns a table as JSON with sorted keys.
func marshal(table any) []byte {
	text, _ := json.Marshal(table) // plain data cannot fail
	return text
}

func digestOf(text []byte) string {
	sum := sha256.Sum256(text)
	return base64.RawURLEncoding.EncodeToString(sum[:digestLength])[:digestLength]
}

// ChangesSince returns the parts of the configuration of an autoscaler that changed since an
// earlier digest, as [Affected] does. The values before the change are unknown. It returns nil if
// the digest is empty, as in records of older versions.
func (a *Autoscaler) ChangesSince(earlier, now string) []Change {
	keys := append([]string{daemonKey, join(fleetsKey, a.Target.Fleet), sourcesKey}, ownKeys...)
	keys = append(keys, join(autoscalersKey, a.Name))
	if len(earlier) != len(now) || len(now) != len(keys)*digestLength {
		return nil
	}
	own := display(autoscalersKey, a.Written).branches("")
	var changes []Change
	for i, key := range keys {
		if part := i * digestLength; earlier[part:part+digestLength] != now[part:part+digestLength] {
			changes = append(changes, Change{Key: shortened(key), Kind: Changed, After: own[key].text()})
		}
	}
	return changes
}

// Difference names the parts that differ between two identities, such as "daemon and sources". It
// returns "" if they are equal, or if one of them is not an identity.
func Difference(one, other string) string {
	a, b := strings.Split(one, "."), strings.Split(other, ".")
	if len(a) != len(identityParts) || len(b) != len(identityParts) {
		return ""
	}
	text := ""
	for i, part := range slices.Backward(identityParts) {
		switch {
		case a[i] == b[i]:
		case text == "":
			text = part
		case strings.Contains(text, " and "):
			text = part + ", " + text
		default:
			text = part + " and " + text
		}
	}
	return text
}
