package cluster_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/graph"
	"github.com/hpad/hpad/simulate"
	"github.com/hpad/hpad/test/wait"
)

// TestGraphOfAllMembers checks that a graph contains the points that each member stored as the owner,
// and names a member that does not respond.
func TestGraphOfAllMembers(t *testing.T) {
	m := newModel(t, 1, t.TempDir())
	m.calm = true
	long := time.Now().Add(-time.Hour).Truncate(time.Second)
	servers := map[string]*httptest.Server{}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	for i := range 2 {
		n := m.add()
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			api.ByMember(api.NewHandler(n.cluster.MemberAPI(), prometheus.NewRegistry(), api.Full),
				api.NewHandler(n.cluster.ClusterAPI(), prometheus.NewRegistry(), api.Full)).ServeHTTP(w, r)
		}))
		t.Cleanup(server.Close)
		n.address, servers[n.name] = server.URL, server
		for fleet := range m.fleets {
			dir := filepath.Join(m.dir, n.name+"-1", "fleets", fleet)
			if err := os.MkdirAll(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			past := graph.New(filepath.Join(dir, "graph.db"), zap.NewNop(), nil)
			past.Add(&graph.Subject{Name: fleet + "-web", Metrics: []string{fmt.Sprint("of-", n.name)}},
				&graph.Point{
					Tick: simulate.Tick{
						Time: long.Add(time.Duration(i) * 10 * time.Minute), Replicas: int32(i + 1), Observed: int32(i + 1), Readings: []simulate.Reading{{Milli: 2000}},
					},
					Metrics: []graph.Metric{{Proposal: 1, Unit: graph.Whole}},
				})
			past.Run(stopped, time.Now)
		}
		n.start(true)
		t.Cleanup(func() { n.end(false) })
	}
	here, there := m.nodes[0], m.nodes[1]
	var remote string
	wait.Soon(t, "a fleet for each", func() bool {
		own := 0
		for fleet := range m.fleets {
			if here.cluster.Daemon(fleet) != nil {
				own++
			}
			if there.cluster.Daemon(fleet) != nil {
				remote = fleet
			}
		}
		return own == 2 && remote != ""
	})
	read := func(n *node) (found api.Graph, warnings []string) {
		t.Helper()
		request := api.WithWarnings(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
		found, err := n.cluster.ClusterAPI().Graph(request.Context(), remote+"-web", long, long.Add(30*time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		return found, api.Warnings(request.Context())
	}
	for _, n := range m.nodes {
		wait.Soon(t, "points of both members", func() bool {
			found, warnings := read(n)
			return slices.Equal(found.Replicas, api.Column{1, 2}) && len(found.Metrics) == 2 && len(warnings) == 0
		})
	}
	for _, n := range m.nodes {
		recording, err := n.cluster.ClusterAPI().Recording(t.Context(), remote+"-web", long, long.Add(30*time.Minute))
		if err != nil || len(recording.Ticks) != 2 || recording.Ticks[0].Replicas != 1 || recording.Ticks[1].Replicas != 2 || len(recording.Metrics) != 2 {
			t.Errorf("recording at %s = %+v, %v", n.name, recording, err)
		}
		policies, err := n.cluster.ClusterAPI().Policies(remote+"-web", nil)
		if err != nil || len(policies) != 1 {
			t.Errorf("policies at %s = %+v, %v", n.name, policies, err)
		}
	}
	servers[there.name].Close()
	found, warnings := read(here)
	if text := strings.Join(warnings, "; "); !slices.Equal(found.Replicas, api.Column{1}) || !strings.Contains(text, "member "+there.name+" does not respond") {
		t.Errorf("graph without %s = %v, warnings %q", there.name, found, text)
	}
	answer := httptest.NewRecorder()
	api.NewHandler(here.cluster.ClusterAPI(), prometheus.NewRegistry(), api.Full).ServeHTTP(answer,
		httptest.NewRequestWithContext(t.Context(), http.MethodGet, fmt.Sprintf("/api/v1/autoscalers/%s-web/graph?from=%d", remote, long.Unix()), nil))
	if text := answer.Body.String(); !strings.Contains(text, `"warnings":["member `+there.name) || !strings.Contains(text, fmt.Sprintf(`"holes":[{"from":%d,`, long.Unix())) {
		t.Errorf("response without %s = %s", there.name, text)
	}
}
