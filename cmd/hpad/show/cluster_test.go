package show

import (
	"strings"
	"testing"
	"time"

	"github.com/hpad/hpad/daemon/api"
)

func TestCluster(t *testing.T) {
	var out strings.Builder
	cluster := api.Cluster{
		Member: "a", Time: time.Date(2026, 1, 1, 0, 1, 30, 0, time.UTC), Problem: "etcd does not respond",
		Members: []api.ClusterMember{{Name: "a", Address: "https://a:4721", Version: "v1", Fleets: 1}, {Name: "b", ClockOffsetSeconds: new(-1.5)}},
		Fleets: []api.ClusterFleet{
			{Name: "prod", Owner: "a", Next: "b", Term: 3, LateSeconds: new(12.0), Configuration: "1.2.3.4", Differs: map[string]string{"c": "", "b": "1.2.4.5"}},
			{Name: "test", UnownedSince: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)},
		},
	}
	err := Cluster(&out, &cluster)
	var got []string
	for line := range strings.Lines(out.String()) {
		got = append(got, strings.Join(strings.Fields(line), " "))
	}
	want := `MEMBER ADDRESS FLEETS VERSION CLOCK PROBLEM
a (this) https://a:4721 1 v1 here
b 0 -1.5s

FLEET OWNER TERM LATE NEXT CONFIGURATION DIFFERS
prod a 3 12s b 1.2.3.4 b in sources and autoscalers, c in everything
test <none> for 1m30s <unknown> no candidate <none>

Warning: etcd does not respond`
	if text := strings.Join(got, "\n"); err != nil || text != want {
		t.Errorf("Cluster() = %v, printed:\n%s\nwant:\n%s", err, text, want)
	}
	fresh := cluster
	fresh.Members, fresh.Fleets = []api.ClusterMember{{Name: "a", Problem: "cannot reach the cluster store"}}, cluster.Fleets[1:]
	fresh.Fleets[0].UnownedSince = time.Time{}
	out.Reset()
	if err := Cluster(&out, &fresh); err != nil || strings.Contains(out.String(), none) || strings.Contains(out.String(), "no candidate") {
		t.Errorf("Cluster() of a member that has never read the store = %v, printed:\n%s", err, out.String())
	}
	cluster.LastRead = time.Date(2026, 1, 1, 0, 1, 0, 0, time.Local)
	out.Reset()
	if err := Cluster(&out, &cluster); err != nil || strings.Count(out.String(), " (at 00:01:00) ") != 2 {
		t.Errorf("Cluster() without the store = %v, printed:\n%s", err, out.String())
	}
}
