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

// TestWhole checks the responses of a member to HTTP requests about fleets that another member
// owns.
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
	wait.Soon(t, "on-time reports of all fleets, with equal configurations", func() bool {
		c, err := api.Get[api.Cluster](t.Context(), client, api.Path("cluster"), nil)
		return err == nil && len(c.Fleets) == 4 && !slices.ContainsFunc(c.Fleets, func(f api.ClusterFleet) bool {
			return f.LateSeconds == nil || *f.LateSeconds > 0 || f.Configuration == "" || len(f.Differs) > 0
		})
	})
	if health, err := client.Health(t.Context()); err != nil || !health.Strictly() {
		t.Errorf("the health is %+v, %v", health, err)
	}
	offsets := here.cluster.Offsets()
	if offset, known := offsets[there.name]; !known || math.Abs(offset) > 1 || len(offsets) != 1 {
		t.Errorf("clock offsets = %v, want 0 for %s", offsets, there.name)
	}

	view, _ := there.cluster.Daemon(remote).Autoscaler(name)
	fleet, target, _ := strings.Cut(view.Reference, "/")
	if groups, err := client.Endpoints(t.Context(), targets.Ref{Fleet: fleet, Name: target}); err == nil && len(groups) == 0 || err != nil && !strings.Contains(err.Error(), "it has no address") {
		t.Errorf("endpoints of another member's target: %+v, %v", groups, err) // the instances of the model may have no addresses
	}
	for range 2 {
		if _, err := api.Get[[]policy.Pause](t.Context(), client, api.Path("pauses"), nil); err != nil {
			t.Fatal(err)
		}
		paused, err := api.Post[policy.Pause](t.Context(), client, api.PathOf(policy.Scope{Autoscaler: name}, "pause"), api.PauseRequest{Reason: "moving house"})
		if err != nil || paused.Reason != "moving house" {
			t.Errorf("pause of another member's autoscaler: %+v, %v", paused, err)
		}
		if view, _ := there.cluster.Daemon(remote).Autoscaler(name); len(view.Pauses) != 1 {
			t.Errorf("pauses on the owner = %+v, want 1", view.Pauses)
		}
		if _, err := api.Post[policy.Pause](t.Context(), client, api.PathOf(policy.Scope{Autoscaler: name}, "resume"), nil); err != nil {
			t.Error(err)
		}
		if pauses, err := api.Get[[]policy.Pause](t.Context(), client, api.Path("pauses"), nil); err != nil || len(pauses) != 0 {
			t.Errorf("pauses after a resume: %+v, %v", pauses, err)
		}
	}
	if _, err := api.Post[policy.Pause](t.Context(), client, api.PathOf(policy.Scope{Autoscaler: name}, "resume"), nil); err == nil || !strings.Contains(err.Error(), "not paused") {
		t.Errorf("a second resume: %v", err)
	}
	if _, err := api.Post[policy.Pause](t.Context(), client, api.PathOf(policy.Scope{}, "pause"), api.PauseRequest{Reason: "all"}); err != nil {
		t.Fatal(err)
	}
	for fleet := range m.fleets {
		if view := list()[fleet+"-web"]; len(view.Pauses) != 1 {
			t.Errorf("pauses of %s after a pause of all autoscalers = %+v, want 1", fleet, view.Pauses)
		}
	}
	if pauses, err := api.Get[[]policy.Pause](t.Context(), client, api.Path("pauses"), nil); err != nil || len(pauses) != 1 {
		t.Errorf("Pauses() = %+v, %v, want one pause of all autoscalers", pauses, err)
	}
	if _, err := api.Post[policy.Pause](t.Context(), client, api.PathOf(policy.Scope{}, "resume"), nil); err != nil {
		t.Fatal(err)
	}

	if view, err := api.Post[api.Autoscaler](t.Context(), client, api.Path("autoscalers", name, "scale"), api.ScaleRequest{Replicas: new(int32(7))}); err != nil || m.fleets[remote].Replicas("web") != 7 || view.Status.DesiredReplicas != 7 {
		t.Errorf("count after Scale = %d, status = %+v, %v", m.fleets[remote].Replicas("web"), view.Status, err)
	}
	for _, of := range []string{name, ""} {
		entries, err := client.History(t.Context(), of, api.HistoryQuery{})
		found := false
		for _, entry := range entries {
			found = found || entry.Autoscaler == name && entry.Decision.Command != nil
		}
		if err != nil || !found {
			t.Errorf("the history of %q contains no manual count in %d entries: %v", of, len(entries), err)
		}
	}
	lacks := func() string {
		t.Helper()
		var texts []string
		warned := client.Warning(func(text string) { texts = append(texts, text) })
		if _, err := warned.History(t.Context(), "", api.HistoryQuery{}); err != nil {
			t.Fatal(err)
		}
		return strings.Join(texts, "; ")
	}
	if text := lacks(); text != "" {
		t.Errorf("warnings about missing history = %q, want none", text)
	}
	if found, err := api.Get[api.Verification](t.Context(), client, api.PathOf(policy.Scope{Autoscaler: name}, "history", "verify"), nil); err != nil || found.Checked == 0 || found.Different > 0 {
		t.Errorf("verification of another member's decisions = %+v, %v", found, err)
	}
	if _, err := api.Get[api.Autoscaler](t.Context(), client, api.Path("autoscalers", "nobody"), nil); !errors.Is(err, api.ErrNotFound) {
		t.Errorf("unknown autoscaler: %v", err)
	}
	if _, err := api.Post[api.Cluster](t.Context(), client, api.Path("cluster", "adopt"), api.AdoptRequest{Fleet: "nobody"}); !errors.Is(err, api.ErrNotFound) {
		t.Errorf("adopt with an unknown fleet: %v", err)
	}
	if c, err := api.Post[api.Cluster](t.Context(), client, api.Path("cluster", "adopt"), api.AdoptRequest{Fleet: remote}); err != nil || len(c.Members) != 2 || len(c.Fleets) != 4 || c.Problem != "" {
		t.Errorf("Adopt() = %+v, %v", c, err)
	}

	wait.Soon(t, "list of the owner", func() bool { return !list()[name].Evaluation.Unevaluated })
	servers[there.name].Close()
	if view := list()[name]; !view.Evaluation.Unevaluated || !strings.Contains(view.Evaluation.Error, "member "+there.name) {
		t.Errorf("status directly after the owner ended = %+v, want the last status with a note", view.Evaluation)
	}
	wait.Soon(t, "report of the failed owner", func() bool {
		view, known := list()[name]
		if !known || view.Evaluation.Last.IsZero() {
			t.Fatalf("status of %s without its owner = %+v, known %v", name, view, known)
		}
		return view.Status.CurrentReplicas == m.fleets[remote].Replicas("web") && view.Status.Metrics == nil && // from the store
			strings.Contains(view.Evaluation.Error, "member "+there.name+", which owns the fleet, does not respond")
	})
	if problems := here.cluster.ClusterAPI().Readiness().Problems; !strings.Contains(fmt.Sprint(problems), "member "+there.name) {
		t.Errorf("problems = %+v", problems)
	}
	if text := lacks(); !strings.Contains(text, "member "+there.name+" does not respond: ") {
		t.Errorf("warnings = %q, want a warning about the missing history", text)
	}
	there.end(false)
	wait.Soon(t, "warning about the former member", func() bool { return strings.Contains(lacks(), "member "+there.name+" is no longer in the cluster") })
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
			t.Error("the owner does not list its autoscaler")
		}
		n.end(false)
	})
}

// TestLatenessIsUnknown checks that an owner that cannot reach the store reports no lateness after its
// lease has ended, because another member may evaluate the fleets.
func TestLatenessIsUnknown(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		m := newModel(t, 1, dir)
		m.calm = true
		m.begin(1)
		n := m.nodes[0]
		known := func(want bool) {
			t.Helper()
			for _, f := range n.cluster.ClusterAPI().(api.Clustered).Cluster(t.Context()).Fleets {
				if known := f.LateSeconds != nil; known != want {
					t.Errorf("lateness of %s is known = %t, want %t", f.Name, known, want)
				}
			}
		}
		known(true)
		n.connection.Cut(true, true)
		time.Sleep(ttl)
		known(false)
		time.Sleep(patience)
		known(false)
		n.end(false)
	})
}

func TestUnownedIsShown(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		m := newModel(t, 1, dir)
		m.calm = true
		m.begin(1)
		crashed := time.Now()
		m.nodes[0].end(true) // after a crash, the store still contains the configuration
		n := m.add()
		n.tolerance = 0.01
		shown := func(want string, stored bool) {
			t.Helper()
			time.Sleep(patience)
			all := n.cluster.ClusterAPI()
			listed := slices.Collect(all.AutoscalersAfter(""))
			if len(listed) != len(m.fleets) {
				t.Errorf("got %d autoscalers, want the autoscalers of %d fleets", len(listed), len(m.fleets))
			}
			for _, each := range listed {
				view, known := all.Autoscaler(each.Name)
				if !known || !reflect.DeepEqual(view, each) || view.Kind != "memory" || view.Spec.MaxReplicas != 1000 ||
					!view.Evaluation.Unevaluated || !strings.Contains(view.Evaluation.Error, want) {
					t.Errorf("%s = %+v, %t, in the list %+v, want the error %q", each.Name, view, known, each, want)
				}
				right := stored && crashed.Sub(view.Evaluation.Last) <= 2*period && view.Status.CurrentReplicas == m.fleets[strings.TrimSuffix(each.Name, "-web")].Replicas("web")
				if unknown := view.Evaluation.Last.IsZero() && view.Created.IsZero() && view.Status.Conditions == nil; !right && (stored || !unknown) {
					t.Errorf("%s has the status %+v as of %s, which is %s before the crash", each.Name, view.Status, view.Evaluation.Last, crashed.Sub(view.Evaluation.Last))
				}
			}
			problem := "fleet alpha"
			if !stored {
				problem = "cluster store"
			}
			if health := all.Health(); !health.Healthy || health.Strictly() || !strings.Contains(fmt.Sprint(health.Cluster), problem) {
				t.Errorf("the health is %+v, want the problem %q", health, problem)
			}
			if _, known := all.Autoscaler("alpha-nobody"); known {
				t.Error("the list contains an autoscaler that no member has")
			}
			if alone := slices.Collect(n.cluster.MemberAPI().AutoscalersAfter("")); len(alone) > 0 {
				t.Errorf("autoscalers that the member runs = %+v, want none", alone)
			}
		}
		n.start(true)
		shown("last owner hpad-0; hpad-1: its configuration differs in daemon and autoscalers", true)
		_, unowned := n.cluster.ClusterAPI().(api.Forwarder).Owner(t.Context(), policy.Scope{Fleet: "alpha"}, false)
		if !errors.Is(unowned, api.ErrRefused) || errors.Is(unowned, api.ErrMoving) {
			t.Errorf("Owner() of a fleet that no member can take over = %v, want an %v", unowned, api.ErrRefused)
		}
		if problem := n.cluster.ClusterAPI().(api.Clustered).Cluster(t.Context()).Problem; !strings.Contains(problem, "no owner, and no member can take over: alpha") {
			t.Errorf("problem = %q", problem)
		}
		for _, f := range n.cluster.ClusterAPI().(api.Clustered).Cluster(t.Context()).Fleets {
			if has := f.Differs[n.name]; f.LateSeconds != nil || f.Configuration == "" || has == "" || has == f.Configuration {
				t.Errorf("fleet = %+v", f)
			}
		}
		n.tolerance = 0.03
		warned := api.WithWarnings(httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", nil)).Context()
		changes, err := n.cluster.Reload(warned)
		if text := fmt.Sprint(api.Warnings(warned)); !strings.Contains(text, `member hpad-1 cannot take over fleet "alpha": its configuration differs from the configuration of the last owner, hpad-0, in daemon and autoscalers`) {
			t.Errorf("warnings of the reload = %s", text)
		}
		if text := fmt.Sprint(changes); err != nil || !strings.Contains(text, "~ autoscalers.alpha-web.tolerance: 0.01 -> 0.03") {
			t.Errorf("changes of a reload on a member without fleets = %s, %v", text, err)
		}
		if err := n.cluster.Adopt(api.WithAuthor(t.Context(), "alice"), "alpha"); err != nil {
			t.Error(err)
		}
		now := n.cluster.ClusterAPI().(api.Clustered).Cluster(t.Context())
		if f := now.Fleets[0]; f.Owner != n.name || f.Next != n.name || len(f.Differs) > 0 || strings.Contains(now.Problem, "alpha") {
			t.Errorf("after Adopt, fleet = %+v, problem = %q", f, now.Problem)
		}
		time.Sleep(patience)
		entries, err := n.cluster.ClusterAPI().History(t.Context(), "alpha-web", time.Time{}, time.Time{}, 0)
		i := slices.IndexFunc(entries, func(e api.Recorded) bool { return e.Reload != nil })
		if err != nil || i < 0 || !entries[i].Reload.Adopted || entries[i].Reload.Author != "alice" || len(entries[i].Reload.Changes) == 0 {
			t.Errorf("history of an adopted fleet = %+v, %v", entries, err)
		}
		n.end(false)
		n.start(true)
		n.connection.Cut(true, true)
		shown("is unknown, because member hpad-1 cannot reach the cluster store: ", false)
		fresh := httptest.NewRecorder()
		handler := api.NewHandler(n.cluster.ClusterAPI(), prometheus.NewRegistry(), api.Full)
		for path, want := range map[string]string{
			"/cluster":               `"members":[{"name":"hpad-1",`,
			"/history":               `the decisions of other members are missing: member hpad-1 has not reached the cluster store since its start: `,
			"/autoscalers/alpha-web": `"evaluation":{"duration_seconds":0,"error":"the owner of fleet`,
		} {
			fresh.Body.Reset()
			handler.ServeHTTP(fresh, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/api/v1"+path, nil))
			text := strings.ReplaceAll(fresh.Body.String(), `\"`, "'")
			if !strings.Contains(text, want) || strings.Contains(text, `"term":`) || strings.Contains(text, `_replicas":0`) {
				t.Errorf("%s without the store = %s, want %s without a term and counts", path, text, want)
			}
		}
		if _, err := n.cluster.ClusterAPI().(api.Forwarder).Owner(t.Context(), policy.Scope{Fleet: "alpha"}, false); !errors.Is(err, api.ErrRefused) || strings.Contains(err.Error(), "has no owner") {
			t.Errorf("Owner() without the store = %v", err)
		}
		if problems := fmt.Sprint(n.cluster.ClusterAPI().Readiness().Problems); !strings.Contains(problems, "the store does not respond") {
			t.Errorf("problems = %s", problems)
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
		for _, n := range m.nodes {
			all := n.cluster.ClusterAPI()
			want := "{fleets beta, gamma no other member can take over: hpad-0: its configuration differs in daemon and autoscalers}"
			if problems := fmt.Sprint(all.Readiness().Problems); !strings.Contains(problems, want) || strings.Contains(fmt.Sprint(all.Health().Cluster), "no other") {
				t.Errorf("problems of %s = %s, want %q, health = %+v", n.name, problems, want, all.Health())
			}
		}
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

// TestUnknownIsShown checks that a member lists the autoscalers of a fleet with the reason why
// their status is unknown while the owner does not list them or does not respond, and that pauses
// wait for a new owner after the owner leaves.
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
		t.Errorf("list of a member that has just started = %+v", list)
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
				t.Fatalf("got %d autoscalers, want %d", len(listed), len(m.fleets))
			}
			view, known := all.Autoscaler("alpha-web")
			return known && view.Evaluation.Unevaluated && strings.Contains(view.Evaluation.Error, want) &&
				reflect.DeepEqual(view, listed[0]) && strings.Contains(request("GET", "/api/v1/autoscalers/alpha-web/explain"), want)
		})
		if text := request("GET", "/api/v1/autoscalers/alpha-nobody"); !strings.HasPrefix(text, "404 ") {
			t.Errorf("response for an unknown autoscaler = %s, want 404", text)
		}
	}
	shown("member other, which owns the fleet, does not list the autoscaler: ")
	if _, err := n.cluster.MemberAPI().Pause(t.Context(), policy.Pause{Scope: policy.Scope{Fleet: "alpha"}}, 0); err == nil || !strings.Contains(err.Error(), "is owned by other") {
		t.Errorf("request forwarded to the wrong member = %v", err)
	}
	left, leave := context.WithTimeout(t.Context(), time.Second/10)
	defer leave()
	if _, err := all.History(left, "", time.Time{}, time.Time{}, 10); err != nil {
		t.Error(err)
	}
	if problems := all.(api.Clustered).Problems(); strings.Contains(fmt.Sprint(problems), "respond") {
		t.Errorf("problems after a client has disconnected = %+v", problems)
	}
	server.Close()
	shown("member other, which owns the fleet, does not respond: ")
	if text := request("GET", "/api/v1/autoscalers"); !strings.Contains(text, `"warnings":["member other: does not respond: `) {
		t.Errorf("no warning in the list: %s", text)
	}
	leaves := func(fleet string) {
		time.AfterFunc(time.Second, func() { _ = sessions[fleet].Leave(context.WithoutCancel(t.Context())) })
	}
	leaves("alpha")
	if text := request("POST", "/api/v1/fleets/alpha/pause"); !strings.HasPrefix(text, "200 ") {
		t.Errorf("pause during a takeover = %s, want 200", text)
	}
	leaves("beta")
	if text := request("POST", "/api/v1/pause"); !strings.HasPrefix(text, "200 ") {
		t.Errorf("pause of all autoscalers during a takeover = %s, want 200", text)
	}
	wait.Soon(t, "the first pass after the takeover", func() bool {
		d := n.cluster.Daemon("beta")
		if d == nil {
			return false
		}
		view, _ := d.Autoscaler("beta-web")
		if view.Decision != nil && len(view.Pauses) != 1 {
			t.Fatalf("pauses of beta-web after the takeover = %+v, want 1", view.Pauses)
		}
		return view.Decision != nil
	})
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
					t.Errorf("error of %s = %q", a.Name, text)
				}
			}
		}
		err := n.cluster.ClusterAPI().ScaleTo(t.Context(), "alpha-web", 5, false, "root")
		if want := "not scaled: the owner's lease has not been renewed: member " + n.name + " cannot use the cluster store, which it last read at "; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ScaleTo() without the store = %v, want %q", err, want)
		}
		n.ail(func() { n.cut = false })
		n.connection.Cut(false, false)
		time.Sleep(patience)
		n.end(true)
		n.start(true)
		want := `the owner of fleet "alpha" is unknown: a member named "` + n.name + `" already exists (another hpad, or this one before its restart), and its lease of 15s has not ended`
		var shown []string
		for range 20 {
			time.Sleep(100 * time.Millisecond)
			view, _ := n.cluster.ClusterAPI().Autoscaler("alpha-web")
			shown = append(shown, view.Evaluation.Error)
		}
		if !slices.Contains(shown, want) {
			t.Errorf("errors after a restart of the owner = %q, want %q", slices.Compact(shown), want)
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
			t.Errorf("View() = %v, want the error of the disk", err)
		}
		if a, found := n.cluster.ClusterAPI().Autoscaler("alpha-web"); !found || !strings.Contains(a.Evaluation.Error, "failed to run it") {
			t.Errorf("error of the autoscaler = %q, want the disk error", a.Evaluation.Error)
		}
		if err := os.Remove(fleets); err != nil {
			t.Fatal(err)
		}
		time.Sleep(patience)
		if _, _, err := n.cluster.View(); err != nil || len(m.store.Owned(n.name)) != len(m.fleets) {
			t.Errorf("fleets of the member after the repair = %q, %v", m.store.Owned(n.name), err)
		}
		n.end(false)
	})
}

// TestTakeoverAfterStep checks a takeover from an owner whose wall clock was stepped back. The
// next owner has not seen the earlier owner, and must not treat the step as elapsed time.
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
				t.Errorf("the last pass of %s is %s in the future, %v", name, ahead, err)
			}
		}
		if got := m.fleets["alpha"].Replicas("web"); got != 5 {
			t.Errorf("alpha has %d replicas, want 5", got)
		}
		second.end(false)
	})
}
