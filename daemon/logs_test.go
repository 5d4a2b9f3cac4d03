package daemon

import (
	"strings"
	"testing"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
)

// TestLastLine checks that the last line is short and has no secrets.
func TestLastLine(t *testing.T) {
	long := strings.Repeat("é", maxLastOutput+1)
	for output, want := range map[string]string{
		"":                          "",
		"first\nlast\n \n\n":        "last",
		"a\xff":                     "a\ufffd",
		long:                        long[:2*(maxLastOutput-1)] + "…",
		"dial amqp://me:hunter22@q": "dial amqp://redacted@q",
	} {
		if got := lastLine(output); got != want {
			t.Errorf("lastLine(%q) = %q, want %q", output, got, want)
		}
	}
}

// TestFindInstance checks that instances are found by name, by ID and by the start of their ID, and
// that errors list names.
func TestFindInstance(t *testing.T) {
	reading := &targets.Reading{
		Instances: []policy.Instance{{ID: "4f1c0aa5d3"}, {ID: "4f1c0aa5e7"}, {ID: "9b2d000000"}},
		Locations: targets.LocationList{{Name: "shop-web-1"}, {Name: "shop-web-2"}, {}},
	}
	for given, want := range map[string]string{
		"shop-web-2": "4f1c0aa5e7", "4f1c0aa5d3": "4f1c0aa5d3", "4f1c0aa5d": "4f1c0aa5d3", "9b2d0000": "9b2d000000",
		"9b2d": "", "4f1c0aa5": "", "shop-web": "", "": "",
	} {
		got, err := findInstance("web", reading, given)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("findInstance(%q) = %q, %v, want %q", given, got, err, want)
		}
		if err != nil && !strings.Contains(err.Error(), "shop-web-1, shop-web-2, 9b2d000000") {
			t.Errorf("findInstance(%q) = %v, want the names", given, err)
		}
	}
}
