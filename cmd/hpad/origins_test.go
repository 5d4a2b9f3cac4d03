package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"
	"gotest.tools/v3/golden"

	"github.com/hpad/hpad/cmd/hpad/cloudpolicy"
	"github.com/hpad/hpad/cmd/hpad/origin"
	"github.com/hpad/hpad/cmd/hpad/swarmpolicy"
)

// TestOrigins compares the converted policies of clouds and of Swarm with golden files.
func TestOrigins(t *testing.T) {
	for _, test := range []struct {
		from  origin.Origin
		files string
	}{{cloudpolicy.Origin{}, "cloudpolicy/testdata/*.json"}, {swarmpolicy.Origin{}, "swarmpolicy/testdata/*.*"}} {
		files, err := filepath.Glob(test.files)
		if err != nil || len(files) < 2 {
			t.Fatalf("%s: %v, %v", test.files, files, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if !test.from.Recognizes(text) {
				t.Errorf("%s is not recognized", file)
			}
			name := filepath.Base(file)
			policies, _, err := test.from.Read(name, text)
			if err != nil {
				t.Fatal(err)
			}
			var page strings.Builder
			for _, a := range origin.Convert(policies, origin.Choices{Source: "prom"}) {
				page.WriteString(a.TOML() + "\n")
			}
			golden.Assert(t, page.String(), filepath.Join("..", filepath.Dir(file), "golden", name+".toml"))
			var decoded map[string]any
			if err := toml.Unmarshal([]byte(page.String()), &decoded); err != nil {
				t.Errorf("%v in\n%s", err, page.String())
			}
		}
	}
}

// TestOriginErrors checks that the error about a file with another structure names the file.
func TestOriginErrors(t *testing.T) {
	for text, from := range map[string]origin.Origin{
		"services: [": swarmpolicy.Origin{}, "services: 3": swarmpolicy.Origin{},
		`{"ScalingPolicies": 3}`: cloudpolicy.Origin{}, `[{"targetResourceUri": 3}]`: cloudpolicy.Origin{},
	} {
		if policies, _, err := from.Read("f", []byte(text)); len(policies) > 0 || err == nil || !strings.HasPrefix(err.Error(), "f:") {
			t.Errorf("%s: got %d policies, error %v", text, len(policies), err)
		}
	}
}
