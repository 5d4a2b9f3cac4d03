package swarmpolicy_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"
	"gotest.tools/v3/golden"

	"github.com/hpad/hpad/cmd/hpad/origin"
	"github.com/hpad/hpad/cmd/hpad/swarmpolicy"
)

// TestConvert compares converted files with golden files.
func TestConvert(t *testing.T) {
	for _, file := range []string{"stack.yml", "inspect.json"} {
		text, err := os.ReadFile(filepath.Join("testdata", file))
		if err != nil {
			t.Fatal(err)
		}
		var from swarmpolicy.Origin
		if !from.Recognizes(text) {
			t.Errorf("%s is not recognized", file)
		}
		policies, _, err := from.Read(file, text)
		if err != nil {
			t.Fatal(err)
		}
		var page strings.Builder
		for _, a := range origin.Convert(policies, origin.Choices{Source: "prom"}) {
			page.WriteString(a.TOML() + "\n")
		}
		golden.Assert(t, page.String(), "golden/"+file+".toml")
		var any map[string]any
		if err := toml.Unmarshal([]byte(page.String()), &any); err != nil {
			t.Errorf("%v in\n%s", err, page.String())
		}
	}
}

// TestErrors checks that a file with another structure is an error with its name.
func TestErrors(t *testing.T) {
	for _, text := range []string{"services: [", "services: 3"} {
		if policies, _, err := (swarmpolicy.Origin{}).Read("f", []byte(text)); len(policies) > 0 || err == nil || !strings.HasPrefix(err.Error(), "f:") {
			t.Errorf("%s: got %d policies, error %v", text, len(policies), err)
		}
	}
}
