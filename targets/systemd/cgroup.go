package systemd

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/hpad/hpad/targets/proc"
)

// hierarchies contains the root paths of control groups and processes. Tests use different
// paths.
type hierarchies struct{ groups, processes string }

var controlGroups = hierarchies{groups: "/sys/fs/cgroup", processes: "/proc"}

// inactiveFile returns the memory of a group's inactive file pages in bytes, or 0 if it is
// unknown.
func (h hierarchies) inactiveFile(group string) uint64 {
	if group == "" {
		return 0
	}
	for _, place := range []struct{ path, key string }{
		{filepath.Join(h.groups, group), "inactive_file"},
		{filepath.Join(h.groups, "memory", group), "total_inactive_file"},
	} {
		text, err := os.ReadFile(filepath.Join(place.path, "memory.stat"))
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(text)) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
			if number, err := strconv.ParseUint(value, 10, 64); err == nil && name == place.key {
				return number
			}
		}
	}
	return 0
}

// cpu returns the CPU time of a group's processes and their awaited children, in nanoseconds.
// It is used if the manager has no CPU accounting.
func (h hierarchies) cpu(group string) (uint64, error) {
	if group == "" {
		return 0, errors.New("no control group")
	}
	text, err := os.ReadFile(filepath.Join(h.groups, group, "cgroup.procs"))
	if err != nil {
		text, err = os.ReadFile(filepath.Join(h.groups, "systemd", group, "cgroup.procs"))
	}
	if err != nil {
		return 0, err
	}
	var ticks uint64
	found := false
	buffer := make([]byte, 4096)
	for pid := range strings.FieldsSeq(string(text)) {
		process, err := proc.Read(filepath.Join(h.processes, pid, "stat"), buffer)
		if err != nil {
			return 0, err
		}
		ticks += process.Ticks
		found = found || process != proc.Stat{} // otherwise the process has already exited
	}
	if !found {
		return 0, errors.New("no process in its control group")
	}
	return ticks * (1e9 / proc.ClockTicks), nil
}
