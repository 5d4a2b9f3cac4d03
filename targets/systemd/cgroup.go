package systemd

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// hierarchies are the paths of control groups and processes.
type hierarchies struct{ groups, processes string }

var controlGroups = hierarchies{groups: "/sys/fs/cgroup", processes: "/proc"}

// clockTicks is how many ticks of cpu time /proc counts in a second: the same on every
// Linux.
const clockTicks = 100

// inactiveFile returns how many bytes of a group's memory are pages of files that were
// not used lately; 0 where that is not known.
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

// cpu returns the nanoseconds that the processes of a group used, and the children that
// they waited for: for managers that do not account cpu.
func (h hierarchies) cpu(group string) (uint64, error) {
	if group == "" {
		return 0, errors.New("it has no control group")
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
	for pid := range strings.FieldsSeq(string(text)) {
		stat, err := os.ReadFile(filepath.Join(h.processes, pid, "stat"))
		if err != nil {
			continue // it has ended meanwhile
		}
		used, err := parseTicks(stat)
		if err != nil {
			return 0, fmt.Errorf("process %s: %w", pid, err)
		}
		ticks += used
		found = true
	}
	if !found {
		return 0, errors.New("its control group has no process")
	}
	return ticks * (1e9 / clockTicks), nil
}

// parseTicks reads the user and system time of a process and of the children that it
// waited for.
func parseTicks(stat []byte) (uint64, error) {
	// The second field is the program's name in parentheses, which may hold anything.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	const firstTime = 11 // of the fields after the name
	if len(fields) < firstTime+4 {
		return 0, fmt.Errorf("stat %q is cut short", stat)
	}
	var ticks uint64
	for _, field := range fields[firstTime : firstTime+4] {
		used, err := strconv.ParseUint(string(field), 10, 64)
		if err != nil {
			return 0, err
		}
		ticks += used
	}
	return ticks, nil
}
