package config

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"strings"

	"github.com/hpad/hpad/sources"
)

// identityParts names the parts of an identity in their order.
var identityParts = []string{daemonKey, "fleet", sourcesKey, autoscalersKey}

// partLength is the length of each part of an identity in characters.
const partLength = 6

// Identity returns a hash of the tables that affect decisions about a fleet, as they are written. It
// has one part for [daemon], the fleet, its sources and its autoscalers, separated by dots. Without
// the key, the hashed values cannot be guessed. Defaults are not included, so that an upgrade does
// not change the identity, and neither are the settings of a single member and sync_period.
func (c *Config) Identity(fleet string, key []byte) string {
	daemon := c.Written[daemonKey].table()
	for name := range daemon {
		if name == periodKey || daemonFields.ByKey[name].Tag.Get("decides") != "true" {
			delete(daemon, name)
		}
	}
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
		text, _ := json.Marshal(tables) // sorts the keys; plain data cannot fail
		sum := hmac.New(sha256.New, key)
		sum.Write([]byte(identityParts[i]))
		sum.Write(text)
		parts[i] = base64.RawURLEncoding.EncodeToString(sum.Sum(nil))[:partLength]
	}
	return strings.Join(parts, ".")
}

// DifferingParts returns the names of the parts in which two identities differ, or nil if one of
// them is not an identity.
func DifferingParts(one, other string) []string {
	a, b := strings.Split(one, "."), strings.Split(other, ".")
	if len(a) != len(identityParts) || len(b) != len(identityParts) {
		return nil
	}
	var differing []string
	for i, part := range identityParts {
		if a[i] != b[i] {
			differing = append(differing, part)
		}
	}
	return differing
}
