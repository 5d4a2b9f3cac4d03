package daemon_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/daemontest"
)

// reloadsOf returns the configuration changes in the history of an autoscaler, in the form "author:
// change".
func reloadsOf(w *daemontest.World, name string) []string {
	w.T.Helper()
	entries, err := w.Daemon.History(w.T.Context(), name, time.Time{}, time.Time{}, 0)
	if err != nil {
		w.T.Fatal(err)
	}
	var all []string
	for _, entry := range entries {
		if entry.Reload == nil {
			continue
		}
		for _, change := range entry.Reload.Changes {
			all = append(all, entry.Reload.Author+": "+change.String())
		}
		if entry.Reload.More > 0 {
			all = append(all, fmt.Sprintf("%s: %d more", entry.Reload.Author, entry.Reload.More))
		}
	}
	return all
}

// TestReloadInHistory checks that the history of each autoscaler contains the configuration changes
// that affect it, and no other changes.
func TestReloadInHistory(t *testing.T) {
	daemontest.Run(t, func(t *testing.T, w *daemontest.World) {
		w.AddWithValue("web", 3, 3)
		w.AddWithValue("api", 3, 3)
		w.Start()
		w.Advance(time.Minute)
		check := func(step, author string, change func(), web, other []string) {
			t.Helper()
			beforeWeb, beforeOther := len(reloadsOf(w, "web")), len(reloadsOf(w, "api"))
			change()
			if _, err := w.Daemon.Reload(api.WithAuthor(t.Context(), author)); err != nil {
				t.Fatal(err)
			}
			// The history contains the change even if no pass ends.
			for _, one := range []struct {
				name   string
				before int
				want   []string
			}{{"web", beforeWeb, web}, {"api", beforeOther, other}} {
				if diff := cmp.Diff(one.want, slices.Clone(reloadsOf(w, one.name)[one.before:]), cmp.Transformer("empty", func(s []string) []string { return append([]string{}, s...) })); diff != "" {
					t.Errorf("%s: history of %s (-want +got):\n%s", step, one.name, diff)
				}
			}
			w.Advance(time.Minute)
		}
		edit := func(name string, f func(a *config.Autoscaler)) func() {
			return func() {
				a := *w.Config.Autoscalers[name]
				f(&a)
				w.Config.Autoscalers[name] = &a
			}
		}
		written := func(table config.Written) { w.Config.Written = map[string]config.Written{"daemon": table} }
		check("own table", "alice", edit("web", func(a *config.Autoscaler) { a.Written = config.WrittenOf(map[string]any{"max_replicas": 50}) }),
			[]string{`alice: + max_replicas: 50`}, nil)
		check("no change", "alice", func() {}, nil, nil)
		check("no author", "", func() { written(`{"tolerance":0.2}`) },
			[]string{"an unknown user: + daemon.tolerance: 0.2"}, []string{"an unknown user: + daemon.tolerance: 0.2"})
		check("key without decisions", "alice", func() { written(`{"tolerance":0.2,"writers":["bob"]}`) }, nil, nil)
		check("removed", api.AuthorSignal, func() { delete(w.Config.Autoscalers, "api") }, nil, []string{"SIGHUP: - autoscalers.api"})
		before := len(reloadsOf(w, "web"))
		for range 2 { // the second start finds no change
			w.Stop()
			edit("web", func(a *config.Autoscaler) {
				a.Written = config.WrittenOf(map[string]any{"max_replicas": 60, "metrics": "m"})
			})()
			written(`{"tolerance":0.3}`)
			w.Start()
			w.Advance(time.Minute)
		}
		want := []string{"restart: ~ daemon (another value)", "restart: ~ max_replicas: 60", `restart: ~ metrics: "m"`}
		if diff := cmp.Diff(want, reloadsOf(w, "web")[before:]); diff != "" {
			t.Errorf("after a restart (-want +got):\n%s", diff)
		}
		w.Stop()
	})
}
