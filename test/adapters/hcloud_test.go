package adapters

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	osexec "os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hpad/hpad/cmd/hpad/fleettest"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/adapter"
	hpadhttp "github.com/hpad/hpad/targets/http"
	"github.com/hpad/hpad/test/internal/world"
	"github.com/hpad/hpad/test/wait"
)

// hetzner imitates the servers of the Hetzner Cloud API, as its public description specifies them: lists
// with label selectors and pages, servers that start and that are deleted after a moment, and errors.
type hetzner struct {
	mu      sync.Mutex
	next    int64
	servers []map[string]any
	// changed maps the IDs of servers to the times of their last changes.
	changed map[int64]time.Time
	// limit is the maximum number of servers. status is the status of all responses; 0 means the normal one.
	limit, status int
	token         string
}

func (h *hetzner) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	reply := func(status int, body any) {
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(body)
	}
	refuse := func(status int, code, message string) {
		reply(status, map[string]any{"error": map[string]any{"code": code, "message": message, "details": nil}})
	}
	h.settle()
	switch {
	case r.Header.Get("Authorization") != "Bearer "+h.token:
		refuse(401, "unauthorized", "unable to authenticate")
	case h.status != 0:
		refuse(h.status, "rate_limit_exceeded", "limit of 3600 requests per hour reached")
	case r.Method == http.MethodGet && r.URL.Path == "/servers":
		reply(200, h.list(r))
	case r.Method == http.MethodPost && r.URL.Path == "/servers":
		var server map[string]any
		if err := json.NewDecoder(r.Body).Decode(&server); err != nil || server["server_type"] == nil || server["image"] == nil || server["name"] == nil {
			refuse(422, "invalid_input", "invalid input in field 'server_type'")
			return
		}
		if h.limit > 0 && len(h.servers) >= h.limit {
			refuse(403, "resource_limit_exceeded", "server limit exceeded")
			return
		}
		h.next++
		server["id"], server["status"], server["created"] = h.next, "initializing", time.Now().UTC().Format(time.RFC3339)
		server["private_net"], server["protection"] = []any{map[string]any{"ip": fmt.Sprintf("10.0.0.%d", h.next)}}, map[string]any{"delete": false}
		h.servers = append(h.servers, server)
		h.changed[h.next] = time.Now()
		reply(201, map[string]any{"server": server, "action": map[string]any{"id": 1, "command": "create_server", "status": "running"}})
	case r.Method == http.MethodDelete:
		for _, server := range h.servers {
			if r.URL.Path == fmt.Sprintf("/servers/%d", server["id"]) {
				server["status"] = "deleting"
				h.changed[server["id"].(int64)] = time.Now()
				reply(200, map[string]any{"action": map[string]any{"id": 2, "command": "delete_server", "status": "running"}})
				return
			}
		}
		refuse(404, "not_found", "server not found")
	default:
		refuse(404, "not_found", r.URL.Path)
	}
}

// settle completes starts and deletions.
func (h *hetzner) settle() {
	h.servers = slices.DeleteFunc(h.servers, func(server map[string]any) bool {
		over := time.Since(h.changed[server["id"].(int64)]) > 100*time.Millisecond
		if over && server["status"] == "initializing" {
			server["status"] = "running"
		}
		return over && server["status"] == "deleting"
	})
}

// list returns a page of servers with the label of the selector.
func (h *hetzner) list(r *http.Request) any {
	const size = 2 // smaller than requested, so that there are pages
	var found []map[string]any
	for _, server := range h.servers {
		if labels, _ := server["labels"].(map[string]any); labels[r.FormValue("label_selector")] != nil {
			found = append(found, server)
		}
	}
	page := 1
	_, _ = fmt.Sscan(r.FormValue("page"), &page)
	from, to := min(len(found), (page-1)*size), min(len(found), page*size)
	pagination := map[string]any{"page": page, "per_page": size, "next_page": nil}
	if to < len(found) {
		pagination["next_page"] = page + 1
	}
	return map[string]any{"servers": slices.Concat([]map[string]any{}, found[from:to]), "meta": map[string]any{"pagination": pagination}}
}

// TestHetzner runs fleet-test with the adapter for Hetzner Cloud and an imitation of its API.
func TestHetzner(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(fleets, "hcloud", "main.go"))
	if lines := strings.Count(string(text), "\n"); err != nil || lines > 150 {
		t.Errorf("hcloud has %d lines, want at most 150: %v", lines, err)
	}
	api := &hetzner{changed: map[int64]time.Time{}, token: "secret-token"}
	cloud := httptest.NewServer(api)
	t.Cleanup(cloud.Close)
	dir := t.TempDir()
	program, groups := filepath.Join(dir, "hcloud"), filepath.Join(dir, "groups.json")
	if out, err := osexec.CommandContext(t.Context(), "go", "build", "-o", program, "../../configs/fleets/hcloud").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v: %s", err, out)
	}
	if err := os.WriteFile(groups, []byte(`{"web": {"server_type": "cx22", "image": "debian-12"}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	_ = listener.Close()
	command := osexec.Command(program, address, groups)
	command.Env = append(os.Environ(), "HCLOUD_TOKEN="+api.token, "HCLOUD_ENDPOINT="+cloud.URL)
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = command.Process.Kill(), command.Wait() })
	config := &hpadhttp.Config{URL: "http://" + address}
	config.SetDefaults()
	o := fleettest.Options{
		Targets: []string{"web"}, Max: 6, Patience: world.Patience, Interval: 20 * time.Millisecond,
		Build: func(name string, store targets.Store) (*adapter.Fleet, error) {
			fleet, err := config.Build(name, targets.Env{Store: store})
			if err != nil {
				return nil, err
			}
			return fleet.(*adapter.Fleet), nil
		},
	}
	wait.For(t, world.Patience, "response of the adapter", func() (string, bool) {
		runner, err := fleettest.Open(t.Context(), o)
		if err != nil {
			return err.Error(), false
		}
		return "", runner.Close() == nil
	})
	if broken, all := outcome(t, o); len(broken) > 0 || all != 17 {
		t.Errorf("of %d promises, hcloud breaks:\n%s", all, strings.Join(broken, "\n"))
	}
	checkHetznerErrors(t, o, api)
}

// checkHetznerErrors checks the classes of the API's errors.
func checkHetznerErrors(t *testing.T, o fleettest.Options, api *hetzner) {
	t.Helper()
	set := func(change func()) {
		api.mu.Lock()
		defer api.mu.Unlock()
		change()
	}
	fleet, err := o.Build("test", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = fleet.Close() })
	web := targets.Ref{Fleet: "test", Name: "web"}
	wait.For(t, world.Patience, "end of deletions", func() (string, bool) {
		readings, err := fleet.Snapshot(t.Context(), []targets.Ref{web})
		return fmt.Sprintf("%+v, %v", readings, err), err == nil && len(readings[web].Instances) == 0
	})
	set(func() { api.limit = 2 })
	err = fleet.SetReplicas(t.Context(), web, 4, "", "test")
	if partial, ok := errors.AsType[*targets.PartialError](err); !ok || partial.Reached != 2 || !strings.Contains(err.Error(), "server limit exceeded") {
		t.Errorf("SetReplicas() above the limit = %v", err)
	}
	for _, failure := range []struct {
		status int
		want   error
	}{{503, targets.ErrTransient}, {401, targets.ErrForbidden}, {429, targets.ErrThrottled}} {
		set(func() { api.status = failure.status })
		if _, err := fleet.Snapshot(t.Context(), []targets.Ref{web}); !errors.Is(err, failure.want) || !strings.Contains(err.Error(), strconv.Itoa(failure.status)) {
			t.Errorf("Snapshot() with the status %d = %v, want %v", failure.status, err, failure.want)
		}
	}
}
