package process

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"syscall"
)

// clockTicks is the unit of the times in /proc, in ticks a second. Linux has no
// other towards programs, on all machines that Go runs on.
const clockTicks = 100

// stat is what is read of one process in /proc.
type stat struct {
	group int
	// ticks is the cpu time of the process and of the children it waited for.
	ticks uint64
	// started tells processes of the same number apart.
	started uint64
	// pages is the resident memory.
	pages uint64
}

// Fields of /proc/PID/stat after the program's name, as proc(5) counts them less
// three.
const (
	fieldGroup          = 5 - 3
	fieldUser           = 14 - 3
	fieldSystem         = 15 - 3
	fieldChildrenUser   = 16 - 3
	fieldChildrenSystem = 17 - 3
	fieldStarted        = 22 - 3
	fieldPages          = 24 - 3
)

// parseStat reads the text of /proc/PID/stat. The name in it is in parentheses,
// and may itself have parentheses, spaces and line feeds.
func parseStat(text []byte) (stat, error) {
	end := bytes.LastIndexByte(text, ')')
	if end < 0 {
		return stat{}, fmt.Errorf("no program name in %q", text)
	}
	var s stat
	number := -1
	for field := range bytes.FieldsSeq(text[end+1:]) {
		number++
		var err error
		switch number {
		case fieldGroup:
			s.group, err = strconv.Atoi(string(field))
		case fieldUser, fieldSystem, fieldChildrenUser, fieldChildrenSystem:
			var ticks uint64
			ticks, err = strconv.ParseUint(string(field), 10, 64)
			s.ticks += ticks
		case fieldStarted:
			s.started, err = strconv.ParseUint(string(field), 10, 64)
		case fieldPages:
			s.pages, err = strconv.ParseUint(string(field), 10, 64)
		}
		if err != nil {
			return stat{}, fmt.Errorf("field %d of %q: %w", number+3, text, err)
		}
	}
	if number < fieldPages {
		return stat{}, fmt.Errorf("only %d fields in %q", number+3, text)
	}
	return s, nil
}

// usage is what a process group has used.
type usage struct {
	// ticks is the cpu time of all its processes and of the children they waited
	// for: as long as a process is waited for inside of the group, none is lost.
	ticks uint64
	// bytes is the resident memory; pages shared between its processes count once
	// for each.
	bytes uint64
	// started is the leader's; 0 means that it was not seen.
	started uint64
}

// readGroups adds up the usage of process groups, in one walk over a proc file
// system.
func readGroups(root string, leaders map[int]bool) (map[int]usage, error) {
	dir, err := os.Open(root)
	if err != nil {
		return nil, err
	}
	defer func() { _ = dir.Close() }()
	groups := make(map[int]usage, len(leaders))
	buffer := make([]byte, 4096)
	pageSize := uint64(os.Getpagesize())
	for {
		names, err := dir.Readdirnames(1024)
		for _, name := range names {
			pid, err := strconv.Atoi(name)
			if err != nil {
				continue
			}
			s, err := readStat(root+"/"+name+"/stat", buffer)
			if err != nil {
				return nil, err
			}
			if !leaders[s.group] {
				continue
			}
			sum := groups[s.group]
			sum.ticks += s.ticks
			sum.bytes += s.pages * pageSize
			if pid == s.group {
				sum.started = s.started
			}
			groups[s.group] = sum
		}
		if errors.Is(err, io.EOF) {
			return groups, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// readStat reads one process. One that has gone, or that is somebody else's and
// hidden, is the zero stat, in no group.
func readStat(path string, buffer []byte) (stat, error) {
	fd, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err == nil {
		defer func() { _ = syscall.Close(fd) }()
		var n int
		if n, err = syscall.Read(fd, buffer); err == nil {
			s, err := parseStat(buffer[:n])
			if err != nil {
				return stat{}, fmt.Errorf("read %s: %w", path, err)
			}
			return s, nil
		}
	}
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, os.ErrPermission) || errors.Is(err, syscall.ESRCH) {
		return stat{}, nil
	}
	return stat{}, fmt.Errorf("read %s: %w", path, err)
}
