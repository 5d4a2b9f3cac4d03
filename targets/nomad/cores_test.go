package nomad

import (
	"net/http"
	"testing"
	"time"
)

// far is a time that the test does not live to see.
func far() time.Time { return time.Now().Add(time.Hour) }

// TestSpeeds: the speed of a core of a node is Nomad's first value for the node, or 1000 MHz
// if Nomad has none or rejects the token.
func TestSpeeds(t *testing.T) {
	const nodes = `[{"ID": "node-1", "NodeResources": {"Cpu": {"CpuShares": 8000, "TotalCpuCores": 4}}}, {"ID": "bare"}]`
	status, requests := http.StatusInternalServerError, 0
	f := openFleet(t, testConfig(t, newHandler(t, func(w http.ResponseWriter, _ *http.Request) {
		requests++
		w.WriteHeader(status)
		_, _ = w.Write([]byte(nodes))
	})), nil)
	session, err := f.open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		status, requests int
		node             string
		mhz              float64
	}{
		{http.StatusInternalServerError, 1, "", 0},
		{http.StatusForbidden, 2, "elsewhere", fallbackMHz},
		{http.StatusOK, 3, "node-1", 2000},
		{http.StatusOK, 4, "bare", fallbackMHz},
		{http.StatusOK, 4, "node-1", 2000},
	} {
		status = c.status
		err := f.speeds.learn(t.Context(), session, "", map[string]bool{c.node: true})
		if (err != nil) != (status == http.StatusInternalServerError) || requests != c.requests {
			t.Errorf("status %d: learn(%q) = %v after %d requests, want %d", status, c.node, err, requests, c.requests)
		}
		if c.node != "" && f.speeds.of(c.node) != c.mhz {
			t.Errorf("a core of %s has %v MHz, want %v", c.node, f.speeds.of(c.node), c.mhz)
		}
	}
}
