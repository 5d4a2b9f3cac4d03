package nomadha

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/hpad/hpad/daemon/cluster"
	"github.com/hpad/hpad/daemon/cluster/nomad"
	"github.com/hpad/hpad/settings/webtest"
	nomadfleet "github.com/hpad/hpad/targets/nomad"
	"github.com/hpad/hpad/test/nomad/nomadtest"
)

// TestPolicy checks that a member works with a token that has exactly the policy in docs/ha.md,
// and that it fails without one of the capabilities.
func TestPolicy(t *testing.T) {
	t.Parallel()
	agent := nomadtest.Start(t, nomadtest.Options{ACL: true})
	all := documented(t)
	if err := takePart(t, agent, "all", all); err != nil {
		t.Errorf("error with the policy in docs/ha.md = %v, want nil", err)
	}
	for _, capability := range []string{`"read"`, `"write"`} {
		lacking := strings.Replace(all, capability+", ", "", 1)
		err := takePart(t, agent, "without-"+strings.Trim(capability, `"`), lacking)
		if err == nil || !strings.Contains(err.Error(), "ha.nomad.token_file needs a token with") {
			t.Errorf("error without the capability %s = %v", capability, err)
		}
	}
	if err := takePart(t, agent, "without-destroy", strings.Replace(all, `, "destroy"`, "", 1)); err == nil {
		t.Error(`a member left without the capability "destroy"`)
	}
}

func documented(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile("../../docs/ha.md")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile("(?s)```hcl\n(.*?)```").FindSubmatch(page)
	if found == nil {
		t.Fatal("docs/ha.md contains no policy")
	}
	return string(found[1])
}

func tokenOf(t *testing.T, agent *nomadtest.Agent, name, policy string) *api.ACLToken {
	t.Helper()
	if _, err := agent.Client.ACLPolicies().Upsert(&api.ACLPolicy{Name: name, Rules: policy}, nil); err != nil {
		t.Fatal(err)
	}
	token, _, err := agent.Client.ACLTokens().Create(&api.ACLToken{Name: name, Type: "client", Policies: []string{name}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func takePart(t *testing.T, agent *nomadtest.Agent, name, policy string) error {
	t.Helper()
	file := webtest.Write(t, t.TempDir(), "token", tokenOf(t, agent, name, policy).SecretID+"\n")
	c, err := nomad.New(nomad.Options{Cluster: name, Path: "hpad", Agent: nomadfleet.Config{Address: agent.URL, TokenFile: file}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	s, err := c.Join(t.Context(), cluster.Member{Name: "a"}, time.Minute)
	if err != nil {
		return fmt.Errorf("join: %w", err)
	}
	term, err := s.Acquire(t.Context(), "prod", "1")
	if err != nil {
		return fmt.Errorf("acquire: %w", err)
	}
	if err := term.Write(t.Context(), map[string][]byte{"a": []byte("1")}); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	if _, err := c.View(t.Context()); err != nil {
		return fmt.Errorf("view: %w", err)
	}
	return s.Leave(t.Context())
}
