package docker

import (
	"bytes"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
)

func document(t *testing.T, name string) io.Reader {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return bytes.NewReader(text)
}

// TestParseCounters checks the counters in documents from engines 20.10 and 28.5 on cgroup v1, and
// from 28.5 on cgroup v2.
func TestParseCounters(t *testing.T) {
	for _, test := range []struct {
		name   string
		read   string
		cpu    uint64
		memory int64
	}{
		{"stats-cgroup1-20.10.json", "2026-11-21T15:11:31.683497042Z", 111_266_303, 1_732_608},
		{"stats-cgroup1-28.5.json", "2026-11-21T15:11:33.340633279Z", 115_393_473, 1_994_752},
		// The usage is 50 MiB, including 10 MiB of inactive files.
		{"stats-cgroup2.json", "2026-11-21T13:00:15.25Z", 4_500_000_000, 40 << 20},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := parseCounters(document(t, test.name))
			if err != nil {
				t.Fatal(err)
			}
			if read := got.At.Format(time.RFC3339Nano); read != test.read || got.CPU != test.cpu || got.Memory != test.memory {
				t.Errorf("counters = %+v, want %d ns and %d bytes at %s", got, test.cpu, test.memory, test.read)
			}
		})
	}
	for _, name := range []string{"stats-stopped-20.10.json", "stats-stopped-28.5.json"} {
		t.Run(name, func(t *testing.T) {
			if got, err := parseCounters(document(t, name)); !errors.Is(err, errUnmeasured) {
				t.Errorf("counters = %+v, %v, want errUnmeasured", got, err)
			}
		})
	}
	t.Run("only a time", func(t *testing.T) {
		if got, err := parseCounters(strings.NewReader(`{"read":"2026-11-21T13:00:15Z"}`)); !errors.Is(err, errUnmeasured) {
			t.Errorf("counters = %+v, %v, want errUnmeasured", got, err)
		}
	})
	t.Run("truncated", func(t *testing.T) {
		if got, err := parseCounters(strings.NewReader(`{"read":"2026-11-21T13:00:15Z","cpu_stats":`)); err == nil {
			t.Errorf("counters = %+v, want an error", got)
		}
	})
}

func TestWorkingSet(t *testing.T) {
	for _, test := range []struct {
		name  string
		stats container.MemoryStats
		want  int64
	}{
		{"nothing", container.MemoryStats{}, -1},
		{"only usage", container.MemoryStats{Usage: 100}, 100},
		{"cgroup v1", container.MemoryStats{Usage: 100, Stats: map[string]uint64{"total_inactive_file": 30, "inactive_file": 20}}, 70},
		{"cgroup v1, inactive memory above usage", container.MemoryStats{Usage: 100, Stats: map[string]uint64{"total_inactive_file": 100, "inactive_file": 20}}, 80},
		{"cgroup v2", container.MemoryStats{Usage: 100, Stats: map[string]uint64{"inactive_file": 20}}, 80},
		{"cgroup v2, inactive memory above usage", container.MemoryStats{Usage: 100, Stats: map[string]uint64{"inactive_file": 101}}, 100},
		{"overflow", container.MemoryStats{Usage: math.MaxUint64}, -1},
	} {
		if got := workingSet(test.stats); got != test.want {
			t.Errorf("%s: working set = %d, want %d", test.name, got, test.want)
		}
	}
}
