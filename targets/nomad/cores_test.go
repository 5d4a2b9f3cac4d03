package nomad

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// far is a time that the test does not live to see.
func far() time.Time { return time.Now().Add(time.Hour) }

// TestSpeeds: a core of a node counts what Nomad says of the node, as it was first
// said, or 1000 MHz where it says nothing or may not be read.
func TestSpeeds(t *testing.T) {
	nodes := `[
		{"ID": "node-1", "NodeResources": {"Cpu": {"CpuShares": 8000, "TotalCpuCores": 4}}},
		{"ID": "bare"},
		{"ID": "no-cores", "NodeResources": {"Cpu": {"CpuShares": 8000}}},
		{"ID": "no-shares", "NodeResources": {"Cpu": {"TotalCpuCores": 4}}}
	]`
	status, asked := http.StatusOK, 0
	f := openFleet(t, testConfig(t, newHandler(t, func(w http.ResponseWriter, r *http.Request) {
		asked++
		if !r.URL.Query().Has("resources") {
			t.Errorf("%s asks for no resources", r.URL)
		}
		w.WriteHeader(status)
		_, _ = w.Write([]byte(nodes))
	})), nil)
	session, err := f.open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s := newSpeeds()
	learn := func(ids ...string) error {
		wanted := map[string]bool{}
		for _, id := range ids {
			wanted[id] = true
		}
		return s.learn(t.Context(), session, "", wanted)
	}
	expect := func(node string, want float64) {
		t.Helper()
		if got := s.of(node); got != want {
			t.Errorf("a core of %s counts %v MHz, want %v", node, got, want)
		}
	}
	status = http.StatusInternalServerError
	if err := learn("node-1"); err == nil || !strings.Contains(err.Error(), "speed of nodes") {
		t.Errorf("learn() while Nomad is broken = %v", err)
	}
	status = http.StatusForbidden
	if err := learn("node-1"); err != nil {
		t.Errorf("learn() without the right = %v", err)
	}
	expect("elsewhere", fallbackMHz)
	status = http.StatusOK
	if err := learn("node-1", "bare", "no-cores", "no-shares"); err != nil {
		t.Fatal(err)
	}
	expect("node-1", 2000)
	for _, node := range []string{"bare", "no-cores", "no-shares"} {
		expect(node, fallbackMHz)
	}
	nodes = strings.ReplaceAll(nodes, "8000", "4000")
	before := asked
	if err := learn("node-1", "elsewhere", "bare"); err != nil || asked != before {
		t.Errorf("learn() of nodes that are known = %v with %d calls", err, asked-before)
	}
	if err := learn("node-1", "new"); err != nil || asked != before+1 {
		t.Errorf("learn() beside a new node = %v with %d calls, want one", err, asked-before)
	}
	expect("node-1", 2000)
	expect("no-cores", fallbackMHz)
}
