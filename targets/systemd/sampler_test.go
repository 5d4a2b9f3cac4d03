package systemd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hpad/hpad/targets"
)

// sample returns the samples after two intervals, with a change to the unit in between.
func (r *fixture) sample(change func(u *fakeUnit)) targets.Samples {
	r.Helper()
	r.read()
	ask := func() targets.Samples {
		all, err := r.fleet.Samples(r.Context(), []targets.Ref{workerRef})
		if err != nil {
			r.Fatal(err)
		}
		synctest.Wait()
		return all[workerRef]
	}
	ask()
	pass(time.Second)
	r.m.set(func() { change(r.m.units["worker@1.service"]) })
	pass(15 * time.Second)
	return ask()
}

// TestSamples checks that a sample contains the measured resources.
func TestSamples(t *testing.T) {
	const second = uint64(time.Second)
	for name, c := range map[string]struct {
		change      func(u *fakeUnit)
		cpu, memory int64 // in milli-units; -1 means none
		want        string
	}{
		"used":                 {func(u *fakeUnit) { u.properties[cpuUsage] = 3 * second }, 200, 8 << 20 * 1000, ""},
		"cpu not accounted":    {func(u *fakeUnit) { u.properties[cpuUsage] = unset }, -1, 8 << 20 * 1000, "CPUAccounting="},
		"memory not accounted": {func(u *fakeUnit) { u.properties[memoryCurrent] = unset }, 0, -1, "MemoryAccounting="},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, []int{1}, func(r *fixture) {
				samples := r.sample(c.change)
				if len(samples.Instances) != 1 || samples.Instances[0].ID != "worker@1.service" || samples.Instances[0].Window != 15*time.Second {
					r.Fatalf("got samples %+v, want one that covers the interval", samples)
				}
				got := map[string]int64{"cpu": -1, "memory": -1}
				for _, amount := range samples.Instances[0].Tasks[0].Usage {
					got[amount.Resource] = amount.Milli
				}
				if got["cpu"] != c.cpu || got["memory"] != c.memory {
					r.Errorf("used %v, want cpu %d and memory %d", got, c.cpu, c.memory)
				}
				if reason := errorText(samples.Err); !strings.Contains(reason, c.want) || c.want == "" && reason != "" {
					r.Errorf("got error %q, want %q", reason, c.want)
				}
			})
		})
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// TestNoSamples checks that a restarted instance has no sample.
func TestNoSamples(t *testing.T) {
	run(t, []int{1}, func(r *fixture) {
		samples := r.sample(func(*fakeUnit) { go r.m.restarted("worker@1.service") })
		if len(samples.Instances) != 1 {
			r.Errorf("got samples %+v before the restart was read, want a sample of the old run", samples)
		}
		r.read()
		for _, after := range []time.Duration{0, 15 * time.Second} {
			pass(after)
			all, err := r.fleet.Samples(t.Context(), []targets.Ref{workerRef})
			if err != nil || len(all[workerRef].Instances) != 0 {
				r.Errorf("got samples %+v, %v, %v after the restart was read, want none", all, err, after)
			}
		}
	})
}

func TestControlGroup(t *testing.T) {
	dir := t.TempDir()
	write := func(path, text string) {
		t.Helper()
		path = filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	h := hierarchies{groups: filepath.Join(dir, "cgroup"), processes: filepath.Join(dir, "proc")}
	write("cgroup/a.slice/memory.stat", "anon 4096\ninactive_file 8192\nactive_file 1\n")
	write("cgroup/memory/b.slice/memory.stat", "cache 9\ninactive_file 5\ntotal_inactive_file 16384\n")
	write("cgroup/c.slice/memory.stat", "inactive_file many\n")
	for group, want := range map[string]uint64{"/a.slice": 8192, "/b.slice": 16384, "/c.slice": 0, "/none": 0, "": 0} {
		if got := h.inactiveFile(group); got != want {
			t.Errorf("inactiveFile(%q) = %d, want %d", group, got, want)
		}
	}

	write("cgroup/a.slice/cgroup.procs", "10\n11\n12\n")
	write("cgroup/systemd/b.slice/cgroup.procs", "10\n")
	write("cgroup/d.slice/cgroup.procs", "")
	write("cgroup/e.slice/cgroup.procs", "13\n")
	stat := ") S 1 10 10 0 -1 4194560 100 200 0 0 7 5 3 1 20 0 1 0 100 1000 10"
	write("proc/10/stat", "10 (worker"+stat)
	write("proc/11/stat", "11 (a ) b) c"+stat)
	write("proc/13/stat", "13 (short) S 1")
	for group, want := range map[string]uint64{"/a.slice": 32 * 10_000_000, "/b.slice": 16 * 10_000_000} {
		if got, err := h.cpu(group); err != nil || got != want {
			t.Errorf("cpu(%q) = %d, %v, want %d", group, got, err, want)
		}
	}
	for _, group := range []string{"", "/none", "/d.slice", "/e.slice"} {
		if got, err := h.cpu(group); err == nil {
			t.Errorf("cpu(%q) = %d, want an error", group, got)
		}
	}
}
