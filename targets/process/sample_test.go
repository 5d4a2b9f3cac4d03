package process

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hpad/hpad/targets"
)

func TestReadGroups(t *testing.T) {
	root := t.TempDir()
	for pid, text := range map[string]string{
		"10":   "10 (leader) S 1 10 10 0 -1 0 0 0 0 0 100 20 3 4 20 0 1 0 555 6 2 8",
		"11":   "11 (child) R 10 10 10 0 -1 0 0 0 0 0 1 2 0 0 20 0 1 0 600 6 3 8",
		"12":   "12 (other) R 1 12 12 0 -1 0 0 0 0 0 1 2 0 0 20 0 1 0 600 6 3 8",
		"self": "nothing to read",
	} {
		if err := os.MkdirAll(filepath.Join(root, pid), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, pid, "stat"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(root, "13"), 0o700); err != nil { // the process has ended
		t.Fatal(err)
	}
	got, err := readGroups(root, map[int]bool{10: true, 99: true})
	want := usage{ticks: 130, bytes: 5 * uint64(os.Getpagesize()), started: 555}
	if err != nil || len(got) != 1 || got[10] != want {
		t.Errorf("readGroups() = %+v, %v, want %+v for group 10 only", got, err, want)
	}
	if err := os.WriteFile(filepath.Join(root, "12", "stat"), []byte("garbled"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := readGroups(root, nil); err == nil {
		t.Errorf("readGroups() of an invalid file = %v, want an error", got)
	}
}

func TestSamplesOfBusyWorker(t *testing.T) {
	w := newFixture(t)
	w.config.Services["w"] = w.service("busy", "", 1)
	w.config.SetDefaults()
	w.config.ResourceInterval = time.Second
	f := start(t, w.open(t))
	settled(t, f, "w", 1)
	var memory int64
	measured := 0
	last := time.Time{}
	eventually(t, func() string {
		got, err := f.Samples(t.Context(), []targets.Ref{ref("w")})
		if err != nil {
			t.Fatal(err)
		}
		if samples := got[ref("w")].Instances; len(samples) == 1 && samples[0].At.After(last) {
			last = samples[0].At
			if measured++; measured == 1 {
				return "the first sample includes the start"
			}
			task := samples[0].Tasks[0]
			if task.Task != "w" {
				t.Errorf("the task is %q, want w", task.Task)
			}
			cpu := task.Usage[0].Milli
			memory = task.Usage[1].Milli / 1000
			// On a busy host, a worker gets less CPU time, or the time is read late.
			if cpu < 100 || cpu > 650 {
				return fmt.Sprintf("used %d thousandths of a core, want about 500", cpu)
			}
			return ""
		}
		return fmt.Sprintf("%d samples so far", measured)
	})
	if memory < 64<<20 || memory > 256<<20 {
		t.Errorf("sampled %d MiB, want at least the worker's 64 MiB and at most 256 MiB", memory>>20)
	}
}
