package config

import (
	"fmt"
	"strings"
	"testing"
)

// TestIdentity checks which differences between two members prevent a takeover, and which changes
// the history contains after a start.
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
	parse := func(text string) (c *Config, identity, digest string) {
		t.Helper()
		c, err := Parse("hpad.toml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return c, c.Identity("prod", []byte("key")), c.Digests()(c.Autoscalers["api"])
	}
	c, before, earlier := parse(base)
	if other := c.Identity("prod", []byte("another key")); Difference(before, other) != "daemon, fleet, sources and autoscalers" {
		t.Errorf("identity %s with a different key = %s, want another identity", before, other)
	}
	if Difference(before, "") != "" || c.Autoscalers["api"].ChangesSince("", earlier) != nil {
		t.Error("an empty string is accepted as an identity or a digest")
	}
	for _, test := range []struct{ old, new, differs, changes string }{
		{`X-Scope-OrgID = "shop"`, `X-Scope-OrgID = "blog"`, "sources", "~ sources (another value)"},
		{`sid="PRD"`, `sid="DEV"`, "autoscalers", "~ metrics (another value)"},
		{`token="one"`, `token="two"`, "autoscalers", "~ metrics (another value)"},
		{"tolerance = 0.2", "tolerance = 0.3", "daemon", "~ daemon (another value)"},
		{"tolerance = 0.2", "sync_period = \"5s\"\ntolerance = 0.2\nlisten = \"127.0.0.1:1\"\nwriters = [\"ann\"]\nautoscaler_series = false", "", ""},
		{`kind = "nomad"`, "kind = \"nomad\"\nnamespace = \"blog\"", "fleet", "~ fleets.prod (another value)"},
		{`kind = "swarm"`, "kind = \"swarm\"\nhost = \"tcp://127.0.0.1:2375\"", "", ""},
		{"127.0.0.1:9091", "127.0.0.1:9092", "", ""},
		{"127.0.0.1:9090", "127.0.0.1:9092", "sources", "~ sources (another value)"},
		{"max_replicas = 9", "max_replicas = 8\nmode = \"off\"", "autoscalers", "~ max_replicas: 8 ~ autoscalers.api (another value)"},
		{`group = "api"`, `group = "web"`, "autoscalers", "~ target (another value)"},
		{"[fleets.other]", "[notifications.chat]\nurl = \"http://127.0.0.1:1/\"\n[fleets.other]", "", ""},
	} {
		c, identity, digest := parse(strings.Replace(base, test.old, test.new, 1))
		changes := strings.Trim(fmt.Sprint(c.Autoscalers["api"].ChangesSince(earlier, digest)), "[]")
		if got := Difference(before, identity); got != test.differs || changes != test.changes {
			t.Errorf("%q instead of %q: differing parts = %q, want %q; changes = %q, want %q", test.new, test.old, got, test.differs, changes, test.changes)
		}
	}
	discovers := strings.Replace(base, `kind = "nomad"`, "kind = \"nomad\"\ndiscover = true", 1)
	changed := strings.Replace(discovers, "127.0.0.1:9091", "127.0.0.1:9092", 1)
	_, one, _ := parse(discovers)
	_, other, _ := parse(changed)
	if got := Difference(one, other); got != "sources" {
		t.Errorf("after a change of a source that labels can use: difference = %s", got)
	}
}

// TestIdentityOfUpgrade checks that an identity and a digest do not change if a new version adds
// keys and defaults. The expected values must not change.
func TestIdentityOfUpgrade(t *testing.T) {
	c := &Config{
		Written:     map[string]Written{"daemon": `{"tolerance":0.1}`},
		Fleets:      map[string]Fleet{"prod": {Name: "prod", Written: `{"kind":"nomad"}`}},
		Autoscalers: map[string]*Autoscaler{},
	}
	a := &Autoscaler{Written: `{"max_replicas":9}`, Inputs: []Input{{Source: "prom"}}}
	if got, want := c.Digests()(a), "0HYyGmqS6hp147DE47DEGVge47DE47DERBNv"; got != want {
		t.Errorf("digest %s, want %s", got, want)
	}
	const want = "jItxFM.GtciOF.4MFveY.lLKQys"
	if got := c.Identity("prod", []byte("key")); got != want {
		t.Errorf("identity %s, want %s", got, want)
	}
}
