package config

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hpad/hpad/daemon/kinds"
	"github.com/hpad/hpad/targets"
)

// fleetsForReferences defines a fleet of each kind. Each fleet has the name of its kind.
const fleetsForReferences = `
[fleets.process]
kind = "process"
[fleets.process.services.worker]
command = ["sleep", "1"]
[fleets.nomad]
kind = "nomad"
namespace = "shop"
[fleets.east]
kind = "nomad"
namespace = "default"
region = "east"
[fleets.compose]
kind = "compose"
[fleets.swarm]
kind = "swarm"
[fleets.systemd]
kind = "systemd"
`

// optionalFleets contains the fleets of kinds that a build may omit.
var optionalFleets = map[string]string{
	"awsasg":    "[fleets.awsasg]\nkind = \"awsasg\"\nregion = \"eu-central-1\"\n",
	"gcemig":    "[fleets.gcemig]\nkind = \"gcemig\"\nproject = \"shop-123\"\nzone = \"europe-west4-a\"\n",
	"azurevmss": "[fleets.azurevmss]\nkind = \"azurevmss\"\nsubscription = \"11111111-2222-3333-4444-555555555555\"\n",
}

func configForReferences(t *testing.T) *Config {
	t.Helper()
	var text strings.Builder
	text.WriteString(fleetsForReferences)
	for kind, fleet := range optionalFleets {
		if _, ok := kinds.Fleets[kind]; ok {
			text.WriteString(fleet)
		}
	}
	c, err := Parse("fleets.toml", []byte(text.String()))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestParseReference(t *testing.T) {
	c := configForReferences(t)
	key := func(name, value string) targets.Key { return targets.Key{Name: name, Value: value} }
	for _, test := range []struct {
		text, ref string
		keys      []targets.Key
		short     string
	}{
		{"process/worker", "process/worker", []targets.Key{key("service", "worker")}, "worker"},
		{"nomad/checkout/api", "nomad/shop/checkout/api", []targets.Key{key("job", "checkout"), key("group", "api")}, "checkout-api"},
		{"nomad/default/checkout/api", "nomad/checkout/api", []targets.Key{key("namespace", "default"), key("job", "checkout"), key("group", "api")}, "checkout-api"},
		{"nomad/west/shop/checkout/api", "nomad/west/shop/checkout/api", []targets.Key{key("region", "west"), key("namespace", "shop"), key("job", "checkout"), key("group", "api")}, "checkout-api"},
		{"compose/shop/web", "compose/shop/web", []targets.Key{key("project", "shop"), key("service", "web")}, "shop-web"},
		{"swarm/shop_web", "swarm/shop_web", []targets.Key{key("service", "shop_web")}, "shop_web"},
		{"awsasg/team/web", "awsasg/team/web", []targets.Key{key("group", "team/web")}, "team/web"},
		{"gcemig/zones/us-east1-b/web", "gcemig/zones/us-east1-b/web", []targets.Key{key("zone", "us-east1-b"), key("group", "web")}, "web"},
		{"gcemig/web", "gcemig/zones/europe-west4-a/web", []targets.Key{key("group", "web")}, "web"},
		{"azurevmss/Shop/Web", "azurevmss/shop/web", []targets.Key{key("resource_group", "Shop"), key("scale_set", "Web")}, "Web"},
		{"systemd/worker@.service", "systemd/worker@.service", []targets.Key{key("template", "worker@.service")}, "worker"},
	} {
		fleet, _, _ := strings.Cut(test.text, "/")
		if _, ok := c.Fleets[fleet]; !ok && kinds.Omitted()[fleet] != "" {
			continue
		}
		t.Run(test.text, func(t *testing.T) {
			got, err := c.ParseReference(test.text)
			if err != nil {
				t.Fatal(err)
			}
			if got.Ref.String() != test.ref {
				t.Errorf("reference %s, want %s", got.Ref, test.ref)
			}
			if diff := cmp.Diff(test.keys, got.Keys); diff != "" {
				t.Errorf("keys (-want +got):\n%s", diff)
			}
			if short := kinds.Fleets[got.Kind].Reference.Short(got.Keys); short != test.short {
				t.Errorf("short reference = %q, want %q", short, test.short)
			}
			if got.Kind != c.Fleets[fleet].Kind || got.Samples != kinds.Fleets[got.Kind].Samples {
				t.Errorf("kind = %q, samples = %v", got.Kind, got.Samples)
			}
		})
	}
}

func TestParseReferenceTellsTheForm(t *testing.T) {
	c := configForReferences(t)
	for _, test := range []struct{ text, detail, hint string }{
		{"worker", `"worker" is not a fleet and a target in the form FLEET/TARGET`, "nomad/checkout/api"},
		{"nomda/checkout/api", `fleet "nomda" does not exist`, `did you mean "nomad/checkout/api"?`},
		{
			"nomad/checkout", `"nomad/checkout" is not a valid target in fleet "nomad" of kind "nomad"`,
			"write it as nomad/JOB/GROUP or nomad/NAMESPACE/JOB/GROUP or nomad/REGION/NAMESPACE/JOB/GROUP, for example nomad/checkout/api",
		},
		{"compose/web", `is not a valid target in fleet "compose"`, "write it as compose/PROJECT/SERVICE, for example compose/shop/web"},
		{"compose/Shop/web", `"compose/Shop/web": project = "Shop": must be a Compose project name`, "compose/PROJECT/SERVICE"},
		{"process/wroker", `"process/wroker": target: `, "process/SERVICE"},
	} {
		t.Run(test.text, func(t *testing.T) {
			_, err := c.ParseReference(test.text)
			mistake, ok := errors.AsType[*ReferenceError](err)
			if !ok {
				t.Fatalf("ParseReference() = %v, want a ReferenceError", err)
			}
			if !strings.Contains(mistake.Error(), test.detail) || !strings.Contains(mistake.Hint, test.hint) {
				t.Errorf("error %q with hint %q, want %q and %q", mistake, mistake.Hint, test.detail, test.hint)
			}
		})
	}
	_, err := (&Config{}).ParseReference("worker")
	if mistake, ok := errors.AsType[*ReferenceError](err); !ok || !strings.Contains(mistake.Hint, "no fleet yet") {
		t.Errorf("ParseReference without fleets = %v", err)
	}
}

func TestAdaptName(t *testing.T) {
	for text, want := range map[string]string{
		"web":                    "web",
		"shop.api":               "shop.api",
		"Web_API":                "web-api",
		"web-":                   "web",
		".web..api.":             "web.api",
		"grüße":                  "gr--e",
		"__":                     "",
		strings.Repeat("a", 300): strings.Repeat("a", 253),
	} {
		got := AdaptName(text)
		if got != want || got != "" && !validName(got) {
			t.Errorf("AdaptName(%q) = %q, want %q", text, got, want)
		}
	}
}
