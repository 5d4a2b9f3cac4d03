package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/api/apitest"
	"github.com/hpad/hpad/daemon/cluster"
	"github.com/hpad/hpad/daemon/state"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/test/wait"
)

// TestWhole sends HTTP requests to a member about fleets that another member owns.
func TestWhole(t *testing.T) {
	m := newModel(t, 1, t.TempDir())
	m.calm = true
	servers := map[string]*httptest.Server{}
	for range 2 {
		n := m.add()
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			alice := func(*http.Request) (string, error) { return "members", nil }
			access := api.Members(alice, func(user string) bool { return user == "members" })
			api.ByMember(api.NewHandler(n.cluster.MemberAPI(), prometheus.NewRegistry(), access), api.NewHandler(n.cluster.ClusterAPI(), prometheus.NewRegistry(), access)).ServeHTTP(w, r)
		}))
		t.Cleanup(server.Close)
		n.address, servers[n.name] = server.URL, server
		n.start(true)
		t.Cleanup(func() { n.end(false) })
	}
	here, there := m.nodes[0], m.nodes[1]
	client := api.NewServerClient(api.Server{URL: here.address})

	var remote string
	wait.Soon(t, "two fleets for each", func() bool {
		own := map[*node]int{}
		for fleet := range m.fleets {
			for _, n := range m.nodes {
				if d := n.cluster.Daemon(fleet); d != nil {
					if view, ok := d.Autoscaler(fleet + "-web"); ok && view.Decision != nil {
						own[n]++
						if n == there {
							remote = fleet
						}
					}
				}
			}
		}
		return own[here] == 2 && own[there] == 2
	})
	list := func() map[string]api.Autoscaler {
		t.Helper()
		views, err := client.Autoscalers(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		all := map[string]api.Autoscaler{}
		for _, view := range views {
			all[view.Name] = view
		}
		return all
	}
	name := remote + "-web"
	wait.Soon(t, "list of all autoscalers", func() bool { return len(list()) == 4 })
	wait.Soon(t, "word of all fleets that they are in time, and as configured", func() bool {
		c, err := client.Cluster(t.Context())
		return err == nil && len(c.Fleets) == 4 && !slices.ContainsFunc(c.Fleets, func(f api.ClusterFleet) bool {
			return f.LateSeconds == nil || *f.LateSeconds > 0 || f.Configuration == "" || len(f.Differs) > 0
		})
	})
	offsets := here.cluster.Offsets()
	if offset, known := offsets[there.name]; !known || math.Abs(offset) > 1 || len(offsets) != 1 {
		t.Errorf("the offsets of the other clocks are %v, want 0 for %s", offsets, there.name)
	}

	view, _ := there.cluster.Daemon(remote).Autoscaler(name)
	fleet, target, _ := strings.Cut(view.Reference, "/")
	if groups, err := client.Endpoints(t.Context(), targets.Ref{Fleet: fleet, Name: target}); err == nil && len(groups) == 0 || err != nil && !strings.Contains(err.Error(), "it has no address") {
		t.Errorf("endpoints of another member's target: %+v, %v", groups, err) // the instances of the model may have no addresses
	}
	for range 2 {
		if _, err := client.Pauses(t.Context()); err != nil {
			t.Fatal(err)
		}
		paused, err := client.Pause(t.Context(), policy.Scope{Autoscaler: name}, api.PauseRequest{Reason: "moving house"})
		if err != nil || paused.Reason != "moving house" {
			t.Errorf("pause of another member's autoscaler: %+v, %v", paused, err)
		}
		if view, _ := there.cluster.Daemon(remote).Autoscaler(name); len(view.Pauses) != 1 {
			t.Errorf("its owner has the pauses %+v", view.Pauses)
		}
		if _, err := client.Resume(t.Context(), policy.Scope{Autoscaler: name}); err != nil {
			t.Error(err)
		}
		if pauses, err := client.Pauses(t.Context()); err != nil || len(pauses) != 0 {
			t.Errorf("pauses after a resume: %+v, %v", pauses, err)
		}
	}
	if _, err := client.Resume(t.Context(), policy.Scope{Autoscaler: name}); err == nil || !strings.Contains(err.Error(), "not paused") {
		t.Errorf("a second resume: %v", err)
	}
	if _, err := client.Pause(t.Context(), policy.Scope{}, api.PauseRequest{Reason: "all"}); err != nil {
		t.Fatal(err)
	}
	for fleet := range m.fleets {
		if view := list()[fleet+"-web"]; len(view.Pauses) != 1 {
			t.Errorf("%s has the pauses %+v after a pause of all", fleet, view.Pauses)
		}
	}
	if pauses, err := client.Pauses(t.Context()); err != nil || len(pauses) != 1 {
		t.Errorf("pauses %+v, %v, want one pause of all autoscalers", pauses, err)
	}
	if _, err := client.Resume(t.Context(), policy.Scope{}); err != nil {
		t.Fatal(err)
	}

	if view, err := client.Scale(t.Context(), name, 7, false); err != nil || m.fleets[remote].Replicas("web") != 7 || view.Status.DesiredReplicas != 7 {
		t.Errorf("scaled to %d with status %+v, %v", m.fleets[remote].Replicas("web"), view.Status, err)
	}
	for _, of := range []string{name, ""} {
		entries, err := client.History(t.Context(), of, time.Time{}, time.Time{}, 0)
		found := false
		for _, entry := range entries {
			found = found || entry.Autoscaler == name && entry.Decision.Command != nil
		}
		if err != nil || !found {
			t.Errorf("the history of %q has no manual scale among %d entries: %v", of, len(entries), err)
		}
	}
	lacks := func() string {
		t.Helper()
		var texts []string
		warned := client.Warning(func(text string) { texts = append(texts, text) })
		if _, err := warned.History(t.Context(), "", time.Time{}, time.Time{}, 0); err != nil {
			t.Fatal(err)
		}
		return strings.Join(texts, "; ")
	}
	if text := lacks(); text != "" {
		t.Errorf("the history of a whole cluster lacks %q", text)
	}
	if found, err := client.VerifyHistory(t.Context(), name, time.Time{}, time.Time{}); err != nil || found.Checked == 0 || found.Different > 0 {
		t.Errorf("the decisions of another member are verified as %+v, %v", found, err)
	}
	if _, err := client.Autoscaler(t.Context(), "nobody"); !errors.Is(err, api.ErrNotFound) {
		t.Errorf("unknown autoscaler: %v", err)
	}
	if _, err := client.Adopt(t.Context(), "nobody"); !errors.Is(err, api.ErrNotFound) {
		t.Errorf("adopt with an unknown fleet: %v", err)
	}
	if c, err := client.Adopt(t.Context(), remote); err != nil || len(c.Members) != 2 || len(c.Fleets) != 4 || c.Problem != "" {
		t.Errorf("the cluster is %+v, %v", c, err)
	}

	servers[there.name].Close()
	wait.Soon(t, "word of it", func() bool {
		view, known := list()[name]
		if !known || view.Status.DesiredReplicas != 7 {
			t.Fatalf("%s is %+v, %v while its owner does not respond", name, view.Status, known)
		}
		return strings.Contains(view.Evaluation.Error, "not up to date: its owner "+there.name)
	})
	if problems := here.cluster.ClusterAPI().Readiness().Problems; !strings.Contains(fmt.Sprint(problems), "member "+there.name) {
		t.Errorf("the problems are %+v", problems)
	}
	if text := lacks(); !strings.Contains(text, "member "+there.name+" does not respond: ") {
		t.Errorf("the warning about its missing history is missing: %q", text)
	}
	there.end(false)
	wait.Soon(t, "word that it is gone", func() bool { return strings.Contains(lacks(), "former member "+there.name+" is gone") })
}

func TestOwnedIsKnown(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		m := newModel(t, 1, dir)
		m.calm = true
		n := m.add()
		n.start(true)
		n.ail(func() { n.disk = time.Second / 4 })
		for end := time.Now().Add(time.Minute); m.store.Owner("alpha") != n.name; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("no member owns the fleet")
			}
		}
		if _, known := n.cluster.MemberAPI().Autoscaler("alpha-web"); !known {
			t.Error("the owner does not know its autoscaler")
		}
		n.end(false)
	})
}

func TestUnownedIsShown(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		m := newModel(t, 1, dir)
		m.calm = true
		m.begin(1)
		m.nodes[0].end(true) // a crash does not forget the configuration
		n := m.add()
		n.tolerance = 0.01
		shown := func(want string) {
			t.Helper()
			time.Sleep(patience)
			all := n.cluster.ClusterAPI()
			listed := slices.Collect(all.AutoscalersAfter(""))
			if len(listed) != len(m.fleets) {
				t.Errorf("%d autoscalers are listed, want those of %d fleets", len(listed), len(m.fleets))
			}
			for _, each := range listed {
				view, known := all.Autoscaler(each.Name)
				if !known || !reflect.DeepEqual(view, each) || view.Kind != "memory" || view.Spec.MaxReplicas != 1000 ||
					!view.Evaluation.Unevaluated || !strings.Contains(view.Evaluation.Error, want) {
					t.Errorf("%s is %+v, %t, and listed as %+v, want %q", each.Name, view, known, each, want)
				}
			}
			if _, known := all.Autoscaler("alpha-nobody"); known {
				t.Error("the list contains an autoscaler that no member has")
			}
			if alone := slices.Collect(n.cluster.MemberAPI().AutoscalersAfter("")); len(alone) > 0 {
				t.Errorf("the member reports that it runs %+v", alone)
			}
		}
		n.start(true)
		shown("last owner hpad-0; hpad-1: configuration differs from the last owner's in daemon, autoscalers")
		if problem := n.cluster.ClusterAPI().(api.Clustered).Cluster(t.Context()).Problem; !strings.Contains(problem, "no owner, and no member can take over: alpha") {
			t.Errorf("the problem is %q", problem)
		}
		for _, f := range n.cluster.ClusterAPI().(api.Clustered).Cluster(t.Context()).Fleets {
			if has := f.Differs[n.name]; f.LateSeconds != nil || f.Configuration == "" || has == "" || has == f.Configuration {
				t.Errorf("the fleet is shown as %+v", f)
			}
		}
		n.tolerance = 0.03
		changes, err := n.cluster.Reload(t.Context())
		if text := fmt.Sprint(changes); err != nil || !strings.Contains(text, "~ autoscalers.alpha-web.tolerance: 0.01 -> 0.03") {
			t.Errorf("a reload of a member that owns no fleet has the changes %s, %v", text, err)
		}
		if err := n.cluster.Adopt(t.Context(), "alpha"); err != nil {
			t.Error(err)
		}
		if f := n.cluster.ClusterAPI().(api.Clustered).Cluster(t.Context()).Fleets[0]; f.Next != n.name || len(f.Differs) > 0 {
			t.Errorf("after adopt the fleet is %+v", f)
		}
		n.end(false)
		n.start(true)
		n.connection.Cut(true, true)
		shown("is unknown, because this member cannot reach the cluster store: ")
		if _, err := n.cluster.ClusterAPI().(api.Forwarder).Owner(t.Context(), policy.Scope{Fleet: "alpha"}); !errors.Is(err, api.ErrRefused) || strings.Contains(err.Error(), "has no owner") {
			t.Errorf("a write without the store: %v", err)
		}
		if problems := fmt.Sprint(n.cluster.ClusterAPI().Readiness().Problems); !strings.Contains(problems, "the store does not answer") {
			t.Errorf("the problems are %s", problems)
		}
		n.end(false)
	})
}

// TestStopAll checks that the members can start with a different configuration after all of them
// have stopped, and that a member whose configuration differs from that of a running member cannot
// take over.
func TestStopAll(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		m := newModel(t, 1, dir)
		m.calm = true
		m.begin(2)
		var stopping sync.WaitGroup
		for _, n := range m.nodes {
			stopping.Go(func() { n.end(false) })
		}
		stopping.Wait()
		for _, n := range m.nodes {
			n.tolerance = 0.01
			n.start(true)
		}
		time.Sleep(patience)
		if !m.isSettled() {
			t.Error("a fleet has no owner after all members were stopped and started")
		}
		stays, leaves := m.nodes[0], m.nodes[1]
		stays.tolerance = 0.02
		stays.reload()
		time.Sleep(patience)
		owned := m.store.Owned(leaves.name)
		leaves.end(false)
		time.Sleep(patience)
		for _, fleet := range owned {
			if owner := m.store.Owner(fleet); owner != "" && m.store.Configuration(fleet) != stays.identity(fleet) {
				t.Errorf("%s owns %s under a different configuration", owner, fleet)
			}
		}
		stays.end(false)
		for _, takeover := range m.store.Takeovers() {
			t.Error(takeover)
		}
	})
}

// other is the API of a member that does not list the autoscalers of its fleet.
type other struct{ *apitest.Daemon }

func (other) Cluster(context.Context) api.Cluster {
	return api.Cluster{Member: "other", Time: time.Now()}
}
func (other) Adopt(context.Context, string) error { return nil }
func (other) Problems() []api.Problem             { return nil }

// TestUnknownIsShown checks the views of a member while the owner of a fleet does not list its
// autoscalers, does not respond, and leaves.
func TestUnknownIsShown(t *testing.T) {
	m := newModel(t, 1, t.TempDir())
	m.calm = true
	responses := api.NewHandler(other{&apitest.Daemon{}}, prometheus.NewRegistry(), api.Full)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/history") {
			<-r.Context().Done()
			return
		}
		responses.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	sessions := map[string]cluster.Session{}
	for fleet, name := range map[string]string{"alpha": "other", "beta": "second"} {
		session, err := m.store.Connect().Join(t.Context(), cluster.Member{Name: name, Address: server.URL}, ttl)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := session.Acquire(t.Context(), fleet, ""); err != nil {
			t.Fatal(err)
		}
		sessions[fleet] = session
	}
	n := m.add()
	n.address = "http://127.0.0.1:1"
	n.start(true)
	if list := slices.Collect(n.cluster.ClusterAPI().AutoscalersAfter("")); len(list) != len(m.refs()) {
		t.Errorf("a member that has just started lists %+v", list)
	}
	t.Cleanup(func() { n.end(false) })
	all := n.cluster.ClusterAPI()
	handler := api.NewHandler(all, prometheus.NewRegistry(), api.Full)
	request := func(method, path string) string {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(method, path, http.NoBody))
		return fmt.Sprint(w.Code, " ", w.Body)
	}
	shown := func(want string) {
		t.Helper()
		wait.Soon(t, want, func() bool {
			listed := slices.Collect(all.AutoscalersAfter(""))
			if n.cluster.Fleets() != nil && len(listed) != len(m.fleets) {
				t.Fatalf("%d autoscalers are listed, want %d", len(listed), len(m.fleets))
			}
			view, known := all.Autoscaler("alpha-web")
			return known && view.Evaluation.Unevaluated && strings.Contains(view.Evaluation.Error, want) &&
				reflect.DeepEqual(view, listed[0]) && strings.Contains(request("GET", "/api/v1/autoscalers/alpha-web/explain"), want)
		})
		if text := request("GET", "/api/v1/autoscalers/alpha-nobody"); !strings.HasPrefix(text, "404 ") {
			t.Errorf("an autoscaler that is not configured: %s", text)
		}
	}
	shown("its owner other does not list it")
	if _, err := n.cluster.MemberAPI().Pause(t.Context(), policy.Pause{Scope: policy.Scope{Fleet: "alpha"}}, 0); err == nil || !strings.Contains(err.Error(), "is owned by other") {
		t.Errorf("a request that was forwarded to the wrong member: %v", err)
	}
	left, leave := context.WithTimeout(t.Context(), time.Second/10)
	defer leave()
	if _, err := all.History(left, "", time.Time{}, time.Time{}, 10); err != nil {
		t.Error(err)
	}
	if problems := all.(api.Clustered).Problems(); len(problems) > 0 {
		t.Errorf("after a client has disconnected, the problems are %+v", problems)
	}
	server.Close()
	shown("its owner other does not respond")
	if text := request("GET", "/api/v1/autoscalers"); !strings.Contains(text, `"warnings":["member other: does not respond: `) {
		t.Errorf("the list has no warning: %s", text)
	}
	leaves := func(fleet string) {
		time.AfterFunc(time.Second, func() { _ = sessions[fleet].Leave(context.WithoutCancel(t.Context())) })
	}
	leaves("alpha")
	if text := request("POST", "/api/v1/fleets/alpha/pause"); !strings.HasPrefix(text, "200 ") {
		t.Errorf("a pause during a takeover: %s", text)
	}
	leaves("beta")
	if text := request("POST", "/api/v1/pause"); !strings.HasPrefix(text, "200 ") {
		t.Errorf("a pause of all autoscalers during a takeover: %s", text)
	}
	if view, _ := n.cluster.Daemon("beta").Autoscaler("beta-web"); len(view.Pauses) != 1 {
		t.Errorf("after a takeover, beta-web has the pauses %+v", view.Pauses)
	}
}

// TestLapsedIsShown checks that the list shows an error for the autoscalers of a member whose lease
// has ended.
func TestLapsedIsShown(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		m := newModel(t, 1, dir)
		m.calm = true
		m.begin(1)
		n := m.nodes[0]
		time.Sleep(patience)
		n.ail(func() { n.cut = true })
		n.connection.Cut(true, true)
		time.Sleep(patience)
		for a := range n.cluster.ClusterAPI().AutoscalersAfter("") {
			view, _ := n.cluster.ClusterAPI().Autoscaler(a.Name)
			for _, text := range []string{a.Evaluation.Error, view.Evaluation.Error} {
				if !strings.Contains(text, "the lease of member "+n.name+" has ended, and another member may own the fleet") {
					t.Errorf("%s is shown with the error %q", a.Name, text)
				}
			}
		}
		n.end(false)
	})
}

// TestBrokenDisk starts a single member that cannot open the stored state of its fleets. It checks
// that the member reports this as the reason why the fleets have no owner.
func TestBrokenDisk(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		m := newModel(t, 1, dir)
		n := m.add()
		fleets := filepath.Join(dir, n.name+"-1", "fleets")
		if err := os.MkdirAll(filepath.Dir(fleets), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(fleets, nil, 0o600); err != nil { // a file in the place of the directory
			t.Fatal(err)
		}
		n.start(true)
		time.Sleep(ttl)
		_, _, err := n.cluster.View()
		if err == nil || !strings.Contains(err.Error(), "failed to run it: open the state") || strings.Contains(err.Error(), "adopt") {
			t.Errorf("the problem is %v, want the error of the disk", err)
		}
		if a, found := n.cluster.ClusterAPI().Autoscaler("alpha-web"); !found || !strings.Contains(a.Evaluation.Error, "failed to run it") {
			t.Errorf("the error of the autoscaler is %q, want the disk error", a.Evaluation.Error)
		}
		if err := os.Remove(fleets); err != nil {
			t.Fatal(err)
		}
		time.Sleep(patience)
		if _, _, err := n.cluster.View(); err != nil || len(m.store.Owned(n.name)) != len(m.fleets) {
			t.Errorf("after the repair the member owns %q, %v", m.store.Owned(n.name), err)
		}
		n.end(false)
	})
}

// TestTakeoverAfterStep lets a member take over from an owner whose wall clock was stepped back.
// The next owner has not seen the earlier one, and must not take the step for elapsed time.
func TestTakeoverAfterStep(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		m := newModel(t, 1, dir)
		m.calm = true
		first, second := m.add(), m.add()
		first.start(true)
		time.Sleep(patience)
		first.ail(func() { first.ahead = -2 * time.Hour })
		m.setLoad("alpha", 4)
		time.Sleep(3 * period)
		first.end(false)
		second.start(true)
		time.Sleep(patience)
		m.setLoad("alpha", 5)
		time.Sleep(3 * period)
		for key, value := range m.store.Records("alpha") {
			name, record, err := state.RecordIn(key, value)
			if ahead := time.Until(record.Through); name != "" && ahead > time.Minute || err != nil {
				t.Errorf("the last pass of %s is %s ahead, %v", name, ahead, err)
			}
		}
		if got := m.fleets["alpha"].Replicas("web"); got != 5 {
			t.Errorf("alpha has %d replicas, want 5", got)
		}
		second.end(false)
	})
}
