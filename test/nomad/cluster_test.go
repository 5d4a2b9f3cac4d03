package nomad

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	nomadapi "github.com/hashicorp/nomad/api"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/nomad"
	"github.com/hpad/hpad/targets/targettest"
	"github.com/hpad/hpad/test/internal/world"
	"github.com/hpad/hpad/test/nomad/nomadtest"
)

// minimal is the ACL policy in docs/nomad.md.
const minimal = `
namespace "default" {
  capabilities = ["list-jobs", "read-job", "scale-job"]
}
node {
  policy = "read"
}
`

// token creates a token with a policy.
func token(t *testing.T, agent *nomadtest.Agent, name, rules string) *nomadapi.ACLToken {
	t.Helper()
	if _, err := agent.Client.ACLPolicies().Upsert(&nomadapi.ACLPolicy{Name: name, Rules: rules}, nil); err != nil {
		t.Fatal(err)
	}
	made, _, err := agent.Client.ACLTokens().Create(&nomadapi.ACLToken{Name: name, Type: "client", Policies: []string{name}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// TestACL checks that the minimal policy is sufficient, and that a missing scale-job capability is
// reported. After the token has been revoked, hpad must not scale until the token file contains a
// valid token.
func TestACL(t *testing.T) {
	t.Parallel()
	agent := nomadtest.Start(t, nomadtest.Options{ACL: true})
	l := world.NewLoad(t)
	l.Queue("guarded", 20)
	agent.Run(t, nomadtest.Job{ID: "guarded", Count: 1})
	agent.AwaitRunning(t, "guarded", 1, patience)
	file := filepath.Join(t.TempDir(), "token")
	write := func(secret string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(secret+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	blunt := token(t, agent, "blunt", strings.Replace(minimal, `, "scale-job"`, "", 1))
	write(blunt.SecretID)

	c := &nomad.Config{Address: agent.URL, TokenFile: file, Timeout: patience}
	c.SetDefaults()
	f, err := nomad.New("prod", c, targets.Env{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	if _, err := f.Snapshot(t.Context(), []targets.Ref{{Fleet: "prod", Name: "guarded/app"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Check(t.Context()); err == nil || !strings.Contains(err.Error(), `lacks scale-job in namespace "default", for "guarded"`) {
		t.Errorf("Check() = %v, want an error about the missing scale-job", err)
	}

	w := world.New(t, fleet(agent.URL, fmt.Sprintf("token_file = %q", file))+l.Source()+queued("guarded", 1, 5))
	w.Await("guarded", policy.AbleToScale, "FailedUpdateScale", "scale-job")
	full := token(t, agent, "minimal", minimal)
	write(full.SecretID)
	agent.AwaitRunning(t, "guarded", 2, patience)
	if found, err := f.Check(t.Context()); err != nil {
		t.Errorf("Check() with the minimal token = %q, %v", found, err)
	}

	if _, err := agent.Client.ACLTokens().Delete(full.AccessorID, nil); err != nil {
		t.Fatal(err)
	}
	w.Await("guarded", policy.AbleToScale, "FailedGetScale", "forbidden")
	l.Queue("guarded", 40)
	w.Passes("guarded", 2)
	if count := agent.Count(t, "guarded"); count != 2 {
		t.Errorf("count without a token = %d, want 2", count)
	}
	write(token(t, agent, "again", minimal).SecretID)
	agent.AwaitRunning(t, "guarded", 4, patience)
}

// TestRestart checks that hpad does not scale while Nomad is down, and then continues with the same
// stabilization windows.
func TestRestart(t *testing.T) {
	t.Parallel()
	agent := nomadtest.Start(t, nomadtest.Options{})
	l := world.NewLoad(t)
	l.Queue("lasting", 30)
	agent.Run(t, nomadtest.Job{ID: "lasting", Count: 1})
	w := world.New(t, fleet(agent.URL, "")+l.Source()+strings.Replace(queued("lasting", 1, 5), `"2s"`, `"10m"`, 1))
	agent.AwaitRunning(t, "lasting", 3, patience)
	agent.Kill()
	l.Queue("lasting", 0)
	w.Await("lasting", policy.AbleToScale, "FailedGetScale", "temporary failure")
	w.Passes("lasting", 2)
	agent.Restart()
	w.Await("lasting", policy.AbleToScale, "ScaleDownStabilized", "")
	w.Passes("lasting", 2)
	if count := agent.Count(t, "lasting"); count != 3 {
		t.Errorf("count after a restart of Nomad = %d, want 3 within the window of 10m", count)
	}
	l.Queue("lasting", 50)
	agent.AwaitRunning(t, "lasting", 5, patience)
}

// TestContract runs the contract suite on a real agent. It checks for leaked goroutines, so it
// must not run in parallel with other tests.
func TestContract(t *testing.T) {
	agent := nomadtest.Start(t, nomadtest.Options{})
	made := 0
	targettest.Run(t, targettest.Kind{Patience: patience, New: func(t *testing.T, counts ...int32) *targettest.Platform {
		p := &targettest.Platform{Missing: targets.Ref{Fleet: "prod", Name: "missing/app"}, Survive: true}
		for _, count := range counts {
			made++
			id := fmt.Sprintf("contract-%d", made)
			agent.Run(t, nomadtest.Job{ID: id, Count: int(count)})
			t.Cleanup(func() {
				if _, _, err := agent.Client.Jobs().Deregister(id, true, nil); err != nil {
					t.Errorf("purge job %q: %v", id, err)
				}
			})
			p.Refs = append(p.Refs, targets.Ref{Fleet: "prod", Name: id + "/app"})
		}
		store := &targettest.Store{}
		p.Open = func(t *testing.T) targets.Fleet {
			c := &nomad.Config{Address: agent.URL}
			c.SetDefaults()
			f, err := nomad.New("prod", c, targets.Env{Store: store})
			if err != nil {
				t.Fatal(err)
			}
			return f
		}
		p.SetCount = func(t *testing.T, ref targets.Ref, n int32) {
			id, _, _ := strings.Cut(ref.Name, "/")
			agent.Run(t, nomadtest.Job{ID: id, Count: int(n)})
		}
		return p
	}})
}
