package nomad

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/nomad/api"

	"github.com/hpad/hpad/policy"
)

// TestSampleOf checks that an allocation has no usage if one of its tasks was not measured
// recently (R26).
func TestSampleOf(t *testing.T) {
	const validity = time.Minute
	now := time.Unix(1_790_000_000, 0)
	used := &api.ResourceUsage{
		CpuStats:    &api.CpuStats{TotalTicks: 250, Measured: []string{"Total Ticks"}},
		MemoryStats: &api.MemoryStats{RSS: 1 << 20, Measured: []string{"RSS"}},
	}
	measured := func(age time.Duration) *api.TaskResourceUsage {
		return &api.TaskResourceUsage{ResourceUsage: used, Timestamp: now.Add(-age).UnixNano()}
	}
	whole := []policy.Amount{{Resource: "cpu", Milli: 250}, {Resource: "memory", Milli: 1 << 20 * 1000}}
	for _, c := range []struct {
		name  string
		age   time.Duration
		tasks map[string]*api.TaskResourceUsage
		names []string
		// want lists the tasks; nil if no sample is expected.
		want []policy.TaskUsage
	}{
		{"measured", 0, map[string]*api.TaskResourceUsage{"main": measured(0)}, []string{"main"}, []policy.TaskUsage{{Task: "main", Usage: whole}}},
		{"at the maximum age", validity, map[string]*api.TaskResourceUsage{"main": measured(2 * validity)}, []string{"main"}, []policy.TaskUsage{{Task: "main", Usage: whole}}},
		{"a task above the maximum age", 0, map[string]*api.TaskResourceUsage{"main": measured(0), "side": measured(validity + 1)}, []string{"main", "side"}, []policy.TaskUsage{{Task: "main", Usage: whole}, {Task: "side"}}},
		{"an unmeasured task", 0, map[string]*api.TaskResourceUsage{"main": measured(0)}, []string{"main", "side"}, []policy.TaskUsage{{Task: "main", Usage: whole}, {Task: "side"}}},
		{"a task without values", 0, map[string]*api.TaskResourceUsage{"main": {Timestamp: now.UnixNano()}}, []string{"main"}, []policy.TaskUsage{{Task: "main"}}},
		{"another task", 0, map[string]*api.TaskResourceUsage{"main": measured(0), "setup": measured(0)}, []string{"main"}, []policy.TaskUsage{{Task: "main", Usage: whole}}},
		{"all tasks", 0, map[string]*api.TaskResourceUsage{"main": measured(0)}, nil, []policy.TaskUsage{{Task: "main", Usage: whole}}},
		{"too old", validity + 1, map[string]*api.TaskResourceUsage{"main": measured(0)}, []string{"main"}, nil},
		{"no tasks", 0, nil, nil, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			alloc := sampledAlloc{Instance: &policy.Instance{ID: "a"}, mhz: 1000}
			for _, name := range c.names {
				alloc.Tasks = append(alloc.Tasks, policy.Task{Name: name})
			}
			at := now.Add(-c.age)
			sample, ok := sampleOf(alloc, &api.AllocResourceUsage{Timestamp: at.UnixNano(), Tasks: c.tasks}, memoryRSS, now, validity)
			if ok != (c.want != nil) {
				t.Fatalf("sampleOf() = %+v, %v", sample, ok)
			}
			if !ok {
				return
			}
			if diff := cmp.Diff(c.want, sample.Tasks); diff != "" || sample.ID != "a" || !sample.At.Equal(at) || sample.Window != statsWindow {
				t.Errorf("sample %+v (-want +got):\n%s", sample, diff)
			}
		})
	}
	ahead, ok := sampleOf(sampledAlloc{Instance: &policy.Instance{ID: "a"}, mhz: 1000}, &api.AllocResourceUsage{Timestamp: now.Add(time.Hour).UnixNano(), Tasks: map[string]*api.TaskResourceUsage{"main": measured(0)}}, memoryRSS, now, validity)
	if !ok || !ahead.At.Equal(now) {
		t.Errorf("time of a sample from a clock that is ahead = %v, want now", ahead.At)
	}
	// The sample's time must have a monotonic reading, so that a step of the wall clock does not
	// change the sample's age.
	for _, by := range []time.Duration{-30 * time.Second, 30 * time.Second} {
		now := time.Now()
		sample, ok := sampleOf(sampledAlloc{Instance: &policy.Instance{ID: "a"}, mhz: 1000}, &api.AllocResourceUsage{Timestamp: now.Add(by).UnixNano(), Tasks: map[string]*api.TaskResourceUsage{"main": measured(0)}}, memoryRSS, now, validity)
		if !ok || !strings.Contains(sample.At.String(), " m=") {
			t.Errorf("time of a sample made %v from now = %v, want a monotonic reading", by, sample.At)
		}
	}
}

// TestUsedBytes checks each definition of used memory, with and without measured values.
func TestUsedBytes(t *testing.T) {
	all := []string{"RSS", "Cache", "Usage"}
	for _, c := range []struct {
		name   string
		stats  api.MemoryStats
		memory string
		want   uint64
		ok     bool
	}{
		{"without cache", api.MemoryStats{Usage: 100, Cache: 30, RSS: 50, Measured: all}, memoryUsageCache, 70, true},
		{"RSS above usage without cache", api.MemoryStats{Usage: 100, Cache: 60, RSS: 50, Measured: all}, memoryUsageCache, 50, true},
		{"RSS not measured", api.MemoryStats{Usage: 100, Cache: 60, RSS: 50, Measured: []string{"Cache", "Usage"}}, memoryUsageCache, 40, true},
		{"RSS above usage", api.MemoryStats{Usage: 100, Cache: 60, RSS: 500, Measured: all}, memoryUsageCache, 100, true},
		{"cache above usage", api.MemoryStats{Usage: 100, Cache: 600, Measured: []string{"Usage"}}, memoryUsageCache, 0, true},
		{"use", api.MemoryStats{Usage: 100, Cache: 30, RSS: 50, Measured: all}, memoryUsage, 100, true},
		{"resident", api.MemoryStats{Usage: 100, Cache: 30, RSS: 50, Measured: all}, memoryRSS, 50, true},
		{"usage not measured", api.MemoryStats{Usage: 100, RSS: 50, Measured: []string{"RSS"}}, memoryUsage, 50, true},
		{"usage is 0", api.MemoryStats{RSS: 50, Measured: all}, memoryUsageCache, 50, true},
		{"no value measured", api.MemoryStats{Usage: 100, RSS: 50}, memoryUsageCache, 50, false},
	} {
		if got, ok := usedBytes(&c.stats, c.memory); got != c.want || ok != c.ok {
			t.Errorf("%s: %d, %t, want %d, %t", c.name, got, ok, c.want, c.ok)
		}
	}
}

// far returns a time after the end of the test.
func far() time.Time { return time.Now().Add(time.Hour) }

// TestSpeeds checks that the speed of a core is the first value that Nomad reports, or 1000 MHz
// if there is none or the token is rejected.
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
		target := &targetState{set: &allocSet{allocs: []*alloc{{allocStub: allocStub{NodeID: c.node}}}}}
		r := &scopeReading{session: session, jobs: map[string]*jobState{"": {targets: []*targetState{target}}}}
		r.readSpeeds(t.Context(), &f.coreSpeeds)
		err := r.unread
		if (err != nil) != (status == http.StatusInternalServerError) || target.read() != (err == nil) || requests != c.requests {
			t.Errorf("status %d: readSpeeds() for %q = %v after %d requests, want %d", status, c.node, err, requests, c.requests)
		}
		if c.node != "" && f.coreSpeeds.of(c.node) != c.mhz {
			t.Errorf("MHz per core of %s = %v, want %v", c.node, f.coreSpeeds.of(c.node), c.mhz)
		}
	}
}
