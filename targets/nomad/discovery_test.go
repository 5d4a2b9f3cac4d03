package nomad

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hpad/hpad/targets"
)

func discoveringFleet(t *testing.T, address string, namespaces ...string) *Fleet {
	t.Helper()
	c := testConfig(t, address)
	c.Discover = true
	if namespaces != nil {
		c.DiscoverNamespaces = namespaces
	}
	return openFleet(t, c, nil)
}

func discover(t *testing.T, f *Fleet) map[string]targets.Discovered {
	t.Helper()
	list, err := f.Discover(t.Context())
	if err != nil {
		t.Fatalf("Discover() = %v", err)
	}
	found := map[string]targets.Discovered{}
	for _, one := range list {
		found[one.Name] = one
	}
	if len(found) != len(list) {
		t.Errorf("Discover() = %v, want unique names", list)
	}
	return found
}

func meta(pairs ...string) map[string]string {
	m := map[string]string{}
	for n := 0; n < len(pairs); n += 2 {
		m[pairs[n]] = pairs[n+1]
	}
	return m
}

func TestDiscover(t *testing.T) {
	i := newFakeServer(t)
	i.add("web", 1).meta = meta("hpad.enable", "true", "hpad.max_replicas", "5", "owner", "shop", "hpadx", "1")
	i.add("off", 1).meta = meta("hpad.enable", "false")
	i.add("plain", 1).meta = meta("owner", "shop")
	i.add("bare", 1)
	i.add("host", 1).kind = "system"
	i.jobs["host"].meta = meta("hpad.enable", "true")
	launched := i.add("form/dispatch-1", 1)
	launched.parent, launched.meta = "form", meta("hpad.enable", "true")
	f := discoveringFleet(t, i.server.URL)
	want := map[string]targets.Discovered{
		"web/app":  {Name: "web/app", Labels: meta("hpad.enable", "true", "hpad.max_replicas", "5")},
		"off/app":  {Name: "off/app", Labels: meta("hpad.enable", "false")},
		"host/app": {Name: "host/app", Labels: meta("hpad.enable", "true")},
	}
	if diff := cmp.Diff(want, discover(t, f)); diff != "" {
		t.Errorf("Discover() (-want +got):\n%s", diff)
	}
	i.counted()
	discover(t, f)
	if calls := i.counted(); calls["/v1/jobs"] != 1 || len(calls) != 1 {
		t.Errorf("calls of a discovery without changes = %v, want one list", calls)
	}
	if _, err := f.Snapshot(t.Context(), []targets.Ref{ref("web/app"), ref("off/app")}); err != nil {
		t.Fatal(err)
	}
	if calls := i.counted(); calls["/v1/job/web"] != 0 {
		t.Errorf("calls of a reading after a discovery = %v, want a cached specification", calls)
	}

	// Meta changes with its job. A stopped job is still discovered, and a purged job is not.
	i.change("web", func(job *fakeJob) { job.meta = meta("hpad.enable", "maybe") })
	i.change("off", func(job *fakeJob) { job.stopped = true })
	i.mu.Lock()
	delete(i.jobs, "host")
	i.mu.Unlock()
	want["web/app"] = targets.Discovered{Name: "web/app", Labels: meta("hpad.enable", "maybe")}
	delete(want, "host/app")
	i.counted()
	if diff := cmp.Diff(want, discover(t, f)); diff != "" {
		t.Errorf("Discover() after changes (-want +got):\n%s", diff)
	}
	if calls := i.counted(); calls["/v1/jobs"] != 1 || calls["/v1/job/web"] != 1 || calls["/v1/job/off"] != 1 || len(calls) != 3 {
		t.Errorf("calls of a discovery after two changes = %v, want one list and two jobs", calls)
	}
}

// TestPolicies checks that an enabled scaling policy becomes labels, unless the meta has hpad.enable.
func TestPolicies(t *testing.T) {
	i := newFakeServer(t)
	block := func(enabled bool, strategy string) map[string]any {
		return map[string]any{"TaskGroups": []any{map[string]any{"Name": "app", "Count": 2, "Scaling": map[string]any{
			"Min": 1, "Max": 9, "Enabled": enabled, "Policy": map[string]any{"check": []any{map[string]any{"queue": []any{map[string]any{
				"source": "prom", "query": "q", "strategy": []any{map[string]any{strategy: []any{map[string]any{"target": 5}}}},
			}}}}},
		}}}}
	}
	i.add("web", 2).extra = block(true, "target-value")
	i.add("off", 2).extra = block(false, "target-value")
	i.add("steps", 2).extra = block(true, "threshold")
	i.add("plain", 2)
	c := testConfig(t, i.server.URL)
	c.Discover, c.NomadAutoscalerPolicies = true, true
	found := discover(t, openFleet(t, c, nil))
	if labels := found["web/app"].Labels; labels["hpad.enable"] != "true" || labels["hpad.metrics.0.value"] != "5" || labels["hpad.max"] != "9" || found["web/app"].Problem != "" {
		t.Errorf("web/app = %+v, want the labels of the policy", found["web/app"])
	}
	if problem := found["steps/app"].Problem; !strings.HasPrefix(problem, `the scaling policy has no equivalent: check "queue": the strategy threshold`) {
		t.Errorf("steps/app has the problem %q", problem)
	}
	if len(found) != 2 {
		t.Errorf("discovered %v, want two groups", found)
	}
	if found := discover(t, discoveringFleet(t, i.server.URL)); len(found) > 0 {
		t.Errorf("discovered %v without nomad_autoscaler_policies", found)
	}
}

// TestDiscoverRegion checks that the target of a fleet without a region has an alias with the
// agent's region.
func TestDiscoverRegion(t *testing.T) {
	i := newFakeServer(t)
	web := i.add("web", 1)
	web.meta, web.extra = meta("hpad.enable", "true"), map[string]any{"Region": "global"}
	named := Target{Job: "web", Group: "app", Namespace: defaultNamespace, Region: "global"}
	want := map[string]targets.Discovered{
		"web/app": {Name: "web/app", Aliases: []string{named.Name()}, Labels: meta("hpad.enable", "true")},
	}
	if diff := cmp.Diff(want, discover(t, discoveringFleet(t, i.server.URL))); diff != "" {
		t.Errorf("Discover() (-want +got):\n%s", diff)
	}
}

// TestDiscoverUnreadable checks that jobs that cannot be read are reported and do not affect other
// jobs.
func TestDiscoverUnreadable(t *testing.T) {
	i := newFakeServer(t)
	i.add("web", 1).meta = meta("hpad.enable", "true")
	i.add("shop", 1).meta = meta("hpad.enable", "true")
	f := discoveringFleet(t, i.server.URL)
	discover(t, f)
	i.change("web", func(job *fakeJob) { job.meta = nil })
	i.add("late", 1).meta = meta("hpad.enable", "true")
	i.mu.Lock()
	i.forbidden["/v1/job/web"], i.forbidden["/v1/job/late"] = true, true
	i.mu.Unlock()
	list, err := f.Discover(t.Context())
	found := map[string]targets.Discovered{}
	for _, target := range list {
		found[target.Name] = target
	}
	if shop := found["shop/app"]; shop.Problem != "" || shop.Labels["hpad.enable"] != "true" || len(found) != 1 {
		t.Errorf("discovered = %+v, want the readable job", found)
	}
	var partial *targets.PartialDiscoveryError
	if !errors.As(err, &partial) || !strings.Contains(err.Error(), `"late" of namespace "default"`) || !strings.Contains(err.Error(), "needs read-job") {
		t.Errorf("Discover() = %v, want an error with the unreadable job", err)
	} else if !partial.Unread("late/app") || !partial.Unread("web/app") || partial.Unread("shop/app") || partial.Unread("other/late/app") {
		t.Error("Unread() is not true for exactly the two unreadable jobs")
	}
	i.mu.Lock()
	clear(i.forbidden)
	i.mu.Unlock()
	if found := discover(t, f); len(found) != 2 || found["late/app"].Labels == nil {
		t.Errorf("discovered after all jobs became readable = %+v", found)
	}
	i.mu.Lock()
	i.forbidden["/v1/jobs"] = true
	i.mu.Unlock()
	if list, err := f.Discover(t.Context()); !errors.Is(err, targets.ErrForbidden) || list != nil {
		t.Errorf("Discover() without list-jobs = %v, %v, want an error", list, err)
	}
}

// TestDiscoverForbidden checks that a namespace that cannot be listed does not affect other
// namespaces. If a call in the middle of a discovery returns 429, the fleet pauses.
func TestDiscoverForbidden(t *testing.T) {
	i := newFakeServer(t)
	i.add("web", 1).meta = meta("hpad.enable", "true")
	busy := false
	server := newHandler(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Query().Get("namespace") == "shut":
			http.Error(w, "Permission denied", http.StatusForbidden)
		case busy && r.URL.Path == "/v1/job/web":
			http.Error(w, "Too Many Requests", http.StatusTooManyRequests)
		default:
			i.ServeHTTP(w, r)
		}
	})
	list, err := discoveringFleet(t, server, "shut", "default").Discover(t.Context())
	partial, ok := errors.AsType[*targets.PartialDiscoveryError](err)
	if !ok || !errors.Is(err, targets.ErrForbidden) || len(list) != 1 {
		t.Fatalf("Discover() = %v, %v, want one group and an error with the forbidden namespace", list, err)
	}
	for name, want := range map[string]bool{"shut/web/app": true, "web/app": false, "shut": false, "a/b/c/d/e": false} {
		if got := partial.Unread(name); got != want {
			t.Errorf("Unread(%q) = %t, want %t", name, got, want)
		}
	}
	busy = true
	f := discoveringFleet(t, server)
	if _, err := f.Discover(t.Context()); !errors.Is(err, targets.ErrThrottled) {
		t.Errorf("Discover() while throttled = %v, want ErrThrottled", err)
	}
	i.counted()
	if _, err := f.Discover(t.Context()); !errors.Is(err, targets.ErrThrottled) || len(i.counted()) != 0 {
		t.Errorf("Discover() during the pause = %v, want ErrThrottled without a call", err)
	}
}

func TestDiscoverNamespaces(t *testing.T) {
	labeled := map[string]any{"Name": "app", "Count": 1, "Meta": meta("hpad.enable", "true")}
	server := newHandler(t, func(w http.ResponseWriter, r *http.Request) {
		list := []any{}
		var answer any = &list
		query := r.URL.Query().Get("namespace")
		for _, namespace := range []string{"default", "team"} {
			if query == namespace || query == "*" {
				list = append(list, map[string]any{"ID": "web", "Namespace": namespace, "JobModifyIndex": 7})
			}
		}
		if r.URL.Path == "/v1/job/web" {
			answer = map[string]any{"ID": "web", "JobModifyIndex": 7, "Type": "service", "TaskGroups": []any{labeled}}
		}
		_ = json.NewEncoder(w).Encode(answer)
	})
	for _, c := range []struct{ configured, want []string }{
		{nil, []string{"web/app"}},
		{[]string{"team"}, []string{"team/web/app"}},
		{[]string{"team", "default"}, []string{"team/web/app", "web/app"}},
		{[]string{"*"}, []string{"team/web/app", "web/app"}},
		{[]string{"none"}, nil},
	} {
		list, err := discoveringFleet(t, server, c.configured...).Discover(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, found := range list {
			names = append(names, found.Name)
		}
		if diff := cmp.Diff(c.want, names); diff != "" {
			t.Errorf("discovered in %q (-want +got):\n%s", c.configured, diff)
		}
	}
	scoped := discoveringFleet(t, server, "team", "default").scopes()
	if want := []scope{{namespace: "default"}, {namespace: "team"}}; !slices.Equal(scoped, want) {
		t.Errorf("scopes() = %v, want %v", scoped, want)
	}
	c := testConfig(t, server)
	if list, err := openFleet(t, c, nil).Discover(t.Context()); list != nil || err != nil || c.Discovers() {
		t.Errorf("Discover() with discover = false returned %v, %v", list, err)
	}
	c.Region = "eu"
	c.Discover = true
	list, err := openFleet(t, c, nil).Discover(t.Context())
	if err != nil || len(list) != 1 || list[0].Name != "eu/default/web/app" {
		t.Errorf("Discover() in a region = %v, %v", list, err)
	}
}
