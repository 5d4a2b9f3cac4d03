package etcd

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/settings/webtest"
	"github.com/hpad/hpad/test/etcd/etcdtest"
	"github.com/hpad/hpad/test/internal/gobuild"
	"github.com/hpad/hpad/test/internal/members"
)

// awaitOwner waits until a member owns all fleets.
func awaitOwner(s *members.Cluster, m *members.Member) {
	s.Await("all fleets of "+m.Name, func() (string, bool) {
		owners := s.Owners(m)
		for _, fleet := range members.Fleets {
			if owners[fleet] != m.Name {
				return fmt.Sprint(owners), false
			}
		}
		return "", true
	})
}

// twoMembers waits until a member lists two members.
func twoMembers(t *testing.T, s *members.Cluster, m *members.Member) {
	t.Helper()
	s.Await("two members", func() (string, bool) {
		found, err := api.Get[api.Cluster](t.Context(), m.Client, api.Path("cluster"), nil)
		return fmt.Sprint(found, err), err == nil && len(found.Members) == 2
	})
}

// TestConfigurations checks which differences between the configurations of members prevent a
// takeover, and how operators can change the configuration of all members.
func TestConfigurations(t *testing.T) {
	t.Parallel()
	s := open(t, etcdtest.Start(t, 1), members.Options{})
	edit := func(m *members.Member, before, after string) {
		t.Helper()
		text, err := os.ReadFile(m.File())
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), before) {
			t.Fatalf("the configuration does not contain %q", before)
		}
		if err := os.WriteFile(m.File(), []byte(strings.ReplaceAll(string(text), before, after)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const url = `kind = "prometheus"`
	tenant := func(name string) string { return url + "\nheaders = { X-Scope-OrgID = \"" + name + "\" }" }
	s.Add(2)
	a, b := s.Members[0], s.Members[1]
	edit(a, url, tenant("shop"))
	edit(b, url, tenant("shop"))
	a.Launch()
	awaitOwner(s, a)
	b.Launch()
	twoMembers(t, s, b)
	a.Kill() // another sync_period does not prevent a takeover
	awaitOwner(s, b)

	edit(a, tenant("shop"), tenant("blog"))
	a.Launch()
	twoMembers(t, s, a)
	b.Stop()
	const reason = "last owner hpad-1; hpad-0: its configuration differs in sources"
	s.Await("the reason for the missing takeover", func() (string, bool) {
		text, _ := a.CLI("cluster", "--socket", a.Socket())
		return text, strings.Contains(text, reason) && strings.Contains(text, "hpad-0 in sources") && strings.Contains(text, "alpha since ")
	})
	if text, _ := a.CLI("get", "--socket", a.Socket(), "-o", "json"); !strings.Contains(text, reason) {
		t.Errorf("get does not show the reason:\n%.500s", text)
	}
	if text, _ := a.Check(); !strings.Contains(text, "ha: the store responds; running members: hpad-0") ||
		!strings.Contains(text, "fleets.alpha: differs from the configuration of the last owner, hpad-1, in sources;") {
		t.Errorf("check --live does not show the difference:\n%.2000s", text)
	}
	if owners := s.Owners(a); len(owners) > 0 {
		t.Errorf("a member with another tenant took over: owners %v", owners)
	}

	edit(b, "tolerance = 0.001", "tolerance = 0.002")
	edit(a, "tolerance = 0.001", "tolerance = 0.002")
	edit(a, tenant("blog"), tenant("shop"))
	a.Stop() // the last member, so that the members can start with a different configuration
	a.Launch()
	b.Launch()
	s.Spread()
}

// TestUpgrade checks that a member takes over from a member of an older version, which lacks a
// configuration key that affects decisions.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, err := filepath.Abs("../../daemon/config/daemon.go")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	const field = "\tCompat string `toml"
	newer := strings.Replace(string(text), field, "\tAdded int `toml:\"added\" default:\"1\" decides:\"true\"`\n"+field, 1)
	if newer == string(text) {
		t.Fatalf("%s lacks %q", file, field)
	}
	source := webtest.Write(t, dir, "daemon.go", newer)
	overlay := webtest.Write(t, dir, "overlay.json", fmt.Sprintf(`{"Replace": {%q: %q}}`, file, source))
	binary := filepath.Join(dir, "hpad")
	if err := gobuild.Build(t.Context(), binary, "github.com/hpad/hpad/cmd/hpad", "-overlay", overlay); err != nil {
		t.Fatal(err)
	}
	s := open(t, etcdtest.Start(t, 1), members.Options{})
	s.Add(2)
	older, upgraded := s.Members[0], s.Members[1]
	upgraded.SetBinary(binary)
	older.Launch()
	awaitOwner(s, older)
	upgraded.Launch()
	twoMembers(t, s, upgraded)
	older.Stop()
	awaitOwner(s, upgraded)
	entries, err := upgraded.Client.History(t.Context(), "", api.HistoryQuery{})
	if i := slices.IndexFunc(entries, func(e api.Recorded) bool { return e.Reload != nil && e.Reload.Takeover == nil }); err != nil || i >= 0 {
		t.Errorf("after an upgrade the history has a configuration change: %+v, %v", entries, err)
	}
}
