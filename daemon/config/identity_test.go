package config

import (
	"fmt"
	"strings"
	"testing"
)

// TestIdentity checks which differences between two members prevent a takeover.
func TestIdentity(t *testing.T) {
	const base = `
[daemon]
tolerance = 0.2
[fleets.prod]
kind = "nomad"
[fleets.other]
kind = "swarm"
[sources.prom]
kind = "prometheus"
url = "http://127.0.0.1:9090"
headers = { X-Scope-OrgID = "shop" }
[sources.unused]
kind = "prometheus"
url = "http://127.0.0.1:9091"
[autoscalers.api]
target = { fleet = "prod", job = "shop", group = "api" }
max_replicas = 9
metrics = [{ type = "External", name = "q", source = "prom", query = 'sap_queue{sid="PRD", token="one"}', value = "1" }]
`
	identity := func(text, key string) string {
		t.Helper()
		c, err := Parse("hpad.toml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return c.Identity("prod", []byte(key))
	}
	digest := func(text string) (*Autoscaler, string) {
		t.Helper()
		c, err := Parse("hpad.toml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return c.Autoscalers["api"], c.Digests()(c.Autoscalers["api"])
	}
	_, earlier := digest(base)
	for _, test := range []struct{ old, new, want string }{
		{"", "", "[]"},
		{"tolerance = 0.2", "sync_period = \"5s\"\ntolerance = 0.3\nlisten = \"127.0.0.1:1\"", "[~ daemon (another value)]"},
		{`kind = "nomad"`, "kind = \"nomad\"\nnamespace = \"blog\"", "[~ fleets.prod (another value)]"},
		{`kind = "swarm"`, "kind = \"swarm\"\nhost = \"tcp://127.0.0.1:2375\"", "[]"},
		{`X-Scope-OrgID = "shop"`, `X-Scope-OrgID = "blog"`, "[~ sources (another value)]"},
		{"127.0.0.1:9091", "127.0.0.1:9092", "[]"},
		{"max_replicas = 9", "max_replicas = 8\nmin_replicas = 2\nmode = \"off\"", "[~ min_replicas: 2 ~ max_replicas: 8 ~ autoscalers.api (another value)]"},
		{`token="one"`, `token="two"`, "[~ metrics (another value)]"},
		{`group = "api"`, `group = "web"`, "[~ target (another value)]"},
	} {
		a, now := digest(strings.Replace(base, test.old, test.new, 1))
		if got := fmt.Sprint(a.ChangesSince(earlier, now)); got != test.want || a.ChangesSince("", now) != nil {
			t.Errorf("%q instead of %q has the changes %s, want %s", test.new, test.old, got, test.want)
		}
	}
	before := identity(base, "key")
	if other := identity(base, "another key"); Difference(before, other) != "daemon, fleet, sources and autoscalers" {
		t.Errorf("identity %s with a different key = %s, want another identity", before, other)
	}
	if Difference(before, "") != "" {
		t.Error("Difference accepts an empty identity")
	}
	for _, test := range []struct{ old, new, want string }{
		{`X-Scope-OrgID = "shop"`, `X-Scope-OrgID = "blog"`, "sources"},
		{`sid="PRD"`, `sid="DEV"`, "autoscalers"},
		{`token="one"`, `token="two"`, "autoscalers"},
		{"tolerance = 0.2", "tolerance = 0.3", "daemon"},
		{"tolerance = 0.2", "sync_period = \"5s\"\ntolerance = 0.2\nlisten = \"127.0.0.1:1\"\nwriters = [\"ann\"]\nautoscaler_series = false", ""},
		{`kind = "nomad"`, "kind = \"nomad\"\nnamespace = \"blog\"", "fleet"},
		{`kind = "swarm"`, "kind = \"swarm\"\nhost = \"tcp://127.0.0.1:2375\"", ""},
		{"127.0.0.1:9091", "127.0.0.1:9092", ""},
		{"127.0.0.1:9090", "127.0.0.1:9092", "sources"},
		{"max_replicas = 9", "max_replicas = 8", "autoscalers"},
		{"[fleets.other]", "[notifications.chat]\nurl = \"http://127.0.0.1:1/\"\n[fleets.other]", ""},
	} {
		got := Difference(before, identity(strings.Replace(base, test.old, test.new, 1), "key"))
		if got != test.want {
			t.Errorf("after replacing %q with %q: differing parts = %q, want %q", test.new, test.old, got, test.want)
		}
	}
	discovers := strings.Replace(base, `kind = "nomad"`, "kind = \"nomad\"\ndiscover = true", 1)
	changed := strings.Replace(discovers, "127.0.0.1:9091", "127.0.0.1:9092", 1)
	if got := Difference(identity(discovers, "key"), identity(changed, "key")); got != "sources" {
		t.Errorf("after a change of a source that labels can use: difference = %s", got)
	}
}

// TestIdentityOfUpgrade checks that an identity does not change if a new version adds keys and
// defaults. The expected value must not change.
func TestIdentityOfUpgrade(t *testing.T) {
	c := &Config{
		Written:     map[string]Written{"daemon": `{"tolerance":0.1}`},
		Fleets:      map[string]Fleet{"prod": {Name: "prod", Written: `{"kind":"nomad"}`}},
		Autoscalers: map[string]*Autoscaler{},
	}
	const want = "jItxFM.GtciOF.4MFveY.lLKQys"
	if got := c.Identity("prod", []byte("key")); got != want {
		t.Errorf("identity %s, want %s", got, want)
	}
}
