package nomad

import (
	"os"
	"strings"
	"testing"
)

// TestPage checks that TestACL uses the ACL policy in docs/nomad.md.
func TestPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/nomad.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), "```hcl"+minimal+"```") {
		t.Errorf("docs/nomad.md does not contain the ACL policy%s", minimal)
	}
}
