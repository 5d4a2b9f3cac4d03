package nomadha

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/crypto/bcrypt"

	"github.com/hpad/hpad/daemon/web/webtest"
	"github.com/hpad/hpad/test/internal/members"
	"github.com/hpad/hpad/test/internal/ports"
	"github.com/hpad/hpad/test/internal/program"
	"github.com/hpad/hpad/test/internal/world"
	"github.com/hpad/hpad/test/scale/sim"
	"github.com/hpad/hpad/test/wait"
)

// TestExample runs three members with configs/ha-nomad.toml and three Nomad servers. It replaces
// only the addresses, the files and the job, which belongs to a simulated Nomad cluster.
func TestExample(t *testing.T) {
	t.Parallel()
	urls := servers(t)
	w := sim.New(sim.Options{Jobs: 1})
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	go w.Run(ctx)
	nomad, prometheus := members.Serve(t, w.Nomad()), members.Serve(t, w.Prometheus())
	authority := webtest.NewAuthority(t, t.TempDir(), "ca")
	var all []*program.Program
	for i := range urls {
		p := example(t, i, authority, map[string]string{
			`address    = "http://127.0.0.1:4646"  # the agent`: fmt.Sprintf(`address = %q  # the agent`, urls[i]),
			`address    = "http://127.0.0.1:4646"`:              fmt.Sprintf(`address = %q`, nomad),
			`"http://10.0.0.9:9090"`:                            fmt.Sprintf("%q", prometheus),
			`job = "checkout", group = "api"`:                   fmt.Sprintf(`job = %q, group = "app"`, sim.JobID(0)),
			`'sum(queue_length{queue="checkout"})'`:             "'" + sim.Load(0) + "'",
			`"30"`:                                              fmt.Sprintf("%q", fmt.Sprint(sim.PerInstance)),
		})
		p.Launch()
		all = append(all, p)
	}
	w.Ask(0, 5)
	wait.For(t, world.Patience, "three members, and the count that the load asks for", func() (string, bool) {
		found, err := all[0].Client.Cluster(t.Context())
		return fmt.Sprintf("%+v, %v, %+v", found, err, w.Truth(0)), err == nil && len(found.Members) == len(all) && w.Truth(0).Count == 5
	})
}

func example(t *testing.T, i int, authority *webtest.Authority, others map[string]string) *program.Program {
	t.Helper()
	address, dir := ports.Free(t), t.TempDir()
	hash, err := bcrypt.GenerateFromPassword([]byte("secret"), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	cert, key := authority.Issue(t, fmt.Sprint("hpad-", i))
	web := fmt.Sprintf("tls_server_config:\n  cert_file: %q\n  key_file: %q\nbasic_auth_users:\n  members: %s\n", cert, key, hash)
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	text, err := os.ReadFile("../../configs/ha-nomad.toml")
	if err != nil {
		t.Fatal(err)
	}
	_, config, found := strings.Cut(string(text), "[ha]\n")
	if !found {
		t.Fatal("the example has no [ha]")
	}
	others["https://10.0.0.1:4720"] = "https://" + address
	others["/etc/hpad/members-password"] = write("password", "secret\n")
	others["/etc/hpad/members-ca.pem"] = authority.File
	others["/run/credentials/hpad.service/nomad-variables-token"] = write("token", "00000000-0000-0000-0000-000000000000\n")
	others["/run/credentials/hpad.service/nomad-token"] = others["/run/credentials/hpad.service/nomad-variables-token"]
	for _, from := range longestFirst(others) {
		if !strings.Contains(config, from) {
			t.Errorf("the example has no %s", from)
		}
		config = strings.ReplaceAll(config, from, others[from])
	}
	return program.Prepare(t, program.Options{
		Daemon: fmt.Sprintf("listen = %q\nweb_config = %q\nsync_period = \"1s\"\n", address, write("web.yml", web)),
		Config: fmt.Sprintf("[ha]\nmember = \"hpad-%d\"\n%s", i, config),
	})
}

func longestFirst(texts map[string]string) []string {
	keys := slices.Collect(maps.Keys(texts))
	slices.SortFunc(keys, func(a, b string) int { return len(b) - len(a) })
	return keys
}
