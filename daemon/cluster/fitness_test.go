package cluster

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestReserve checks that a member with a fleet in Reserve owns it only if no other member can.
func TestReserve(t *testing.T) {
	has := func(identity string) map[string]string { return map[string]string{"x": identity, "y": identity} }
	sick := Member{Name: "a", Reserve: has("1"), Problem: "disk full"}
	for name, test := range map[string]struct {
		members []Member
		want    map[string]string
	}{
		"another member":                        {[]Member{sick, {Name: "b", Fleets: has("1")}}, map[string]string{"x": "b", "y": "b"}},
		"no other member":                       {[]Member{sick}, map[string]string{"x": "a", "y": "a"}},
		"others with another configuration":     {[]Member{sick, {Name: "b", Fleets: has("2")}}, map[string]string{"x": "a", "y": "a"}},
		"others cannot run the fleet":           {[]Member{sick, {Name: "b"}}, map[string]string{"x": "a", "y": "a"}},
		"one fleet in reserve":                  {[]Member{{Name: "a", Fleets: map[string]string{"y": "1"}, Reserve: map[string]string{"x": "1"}}, {Name: "b", Fleets: map[string]string{"x": "1"}}}, map[string]string{"x": "b", "y": "a"}},
		"equal shares of the remaining members": {[]Member{sick, {Name: "b", Fleets: has("1")}, {Name: "c", Fleets: has("1")}}, nil},
	} {
		view := View{Members: map[string]Member{}, Fleets: map[string]Ownership{"x": {Configuration: "1"}, "y": {Configuration: "1"}}}
		for _, m := range test.members {
			view.Members[m.Name] = m
		}
		got := assign(view)
		if test.want == nil {
			if got["x"] == got["y"] || got["x"] == "a" || got["y"] == "a" {
				t.Errorf("%s: assign() = %v, want one fleet for each of b and c", name, got)
			}
		} else if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s: assign() (-want +got):\n%s", name, diff)
		}
	}
}

// TestProbe checks that a member that cannot store state publishes all its fleets as Reserve, with
// the cause, until recoveredAfter without a failed check. A fleet that it failed to run is absent
// for unfitFor, and then in Reserve.
func TestProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newIdle(time.Second)
		c.options.Dir = filepath.Join(t.TempDir(), "fleets")
		c.active.Store(&configuration{identities: map[string]string{"x": "1", "y": "2"}})
		check := func(when string, fleets, reserve int, problem string) {
			t.Helper()
			m := c.described()
			if len(m.Fleets) != fleets || len(m.Reserve) != reserve || (problem == "") != (m.Problem == "") || !strings.Contains(m.Problem, problem) {
				t.Errorf("%s: the member is %+v, want %d fleets, %d in reserve, and problem %q", when, m, fleets, reserve, problem)
			}
		}
		c.probe()
		check("at first", 2, 0, "")
		if err := os.WriteFile(filepath.Join(c.options.Dir, "file"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		dir := c.options.Dir
		c.options.Dir = filepath.Join(dir, "file")
		c.probe()
		check("without a directory", 0, 2, "not a directory")
		c.options.Dir = dir
		c.probe()
		check("after the repair", 0, 2, "not a directory")
		time.Sleep(recoveredAfter)
		check("later", 2, 0, "")
		if problems := (&clusterView{c, true}).memberProblems(); len(problems) > 0 {
			t.Errorf("problems = %v, want none", problems)
		}

		c.unfit["x"] = failure{err: errors.New("bad page"), until: time.Now().Add(unfitFor), reserve: time.Now().Add(reserveFor)}
		check("after a failed run", 1, 0, "bad page")
		time.Sleep(unfitFor)
		check("after unfitFor", 1, 1, "bad page")
		time.Sleep(reserveFor)
		check("after reserveFor", 2, 0, "")
		if !maps.Equal(c.described().Fleets, c.active.Load().identities) {
			t.Errorf("fleets = %v, want the identities of the configuration", c.described().Fleets)
		}
	})
}
