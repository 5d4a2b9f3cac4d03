package nomad

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/hpad/hpad/daemon/config"
)

// TestPage checks that the examples in docs/nomad.md are valid, and that TestACL uses the ACL
// policy on the page.
func TestPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/nomad.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), "```hcl"+minimal+"```") {
		t.Errorf("docs/nomad.md does not contain the ACL policy%s", minimal)
	}
	metrics := 0
	for n, block := range regexp.MustCompile("(?s)```toml\n(.*?)```").FindAllSubmatch(page, -1) {
		c, err := config.Parse(fmt.Sprintf("docs/nomad.md, example %d", n+1), block[1])
		if err != nil {
			t.Error(err)
			continue
		}
		metrics += len(c.Autoscalers["checkout"].Spec.Metrics)
	}
	if metrics != 1 {
		t.Errorf("metrics in the examples = %d, want 1", metrics)
	}
}
