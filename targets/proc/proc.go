// Package proc reads the properties of local processes and of the host.
package proc

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"syscall"
)

// Hostname returns the host's name; "" if it is unknown.
var Hostname = sync.OnceValue(func() string {
	name, _ := os.Hostname()
	return name
})

// ClockTicks is the unit of times in /proc, in ticks per second. It is the same on all
// platforms of Go.
const ClockTicks = 100

// Stat contains fields of /proc/PID/stat.
type Stat struct {
	// Group is the process group.
	Group int
	// Ticks is the CPU time of the process and of its awaited children.
	Ticks uint64
	// Started is the start time, which distinguishes processes with the same number.
	Started uint64
	// Pages is the resident memory in pages.
	Pages uint64
}

// The positions of fields in /proc/PID/stat, as in proc(5), relative to the first field after
// the program's name.
const (
	fieldGroup          = 5 - 3
	fieldUser           = 14 - 3
	fieldSystem         = 15 - 3
	fieldChildrenUser   = 16 - 3
	fieldChildrenSystem = 17 - 3
	fieldStarted        = 22 - 3
	fieldPages          = 24 - 3
)

// parse parses /proc/PID/stat. The program's name in parentheses may itself contain
// parentheses, spaces and line feeds.
func parse(text []byte) (Stat, error) {
	end := bytes.LastIndexByte(text, ')')
	if end < 0 {
		return Stat{}, fmt.Errorf("no program name in %q", text)
	}
	var s Stat
	number := -1
	for field := range bytes.FieldsSeq(text[end+1:]) {
		number++
		var err error
		switch number {
		case fieldGroup:
			s.Group, err = strconv.Atoi(string(field))
		case fieldUser, fieldSystem, fieldChildrenUser, fieldChildrenSystem:
			var ticks uint64
			ticks, err = strconv.ParseUint(string(field), 10, 64)
			s.Ticks += ticks
		case fieldStarted:
			s.Started, err = strconv.ParseUint(string(field), 10, 64)
		case fieldPages:
			s.Pages, err = strconv.ParseUint(string(field), 10, 64)
		}
		if err != nil {
			return Stat{}, fmt.Errorf("field %d of %q: %w", number+3, text, err)
		}
	}
	if number < fieldPages {
		return Stat{}, fmt.Errorf("only %d fields in %q", number+3, text)
	}
	return s, nil
}

// Read reads a stat file with a buffer of at least 4 KiB. It returns the zero Stat if the
// process has ended or is hidden.
func Read(path string, buffer []byte) (Stat, error) {
	fd, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err == nil {
		defer func() { _ = syscall.Close(fd) }()
		var n int
		if n, err = syscall.Read(fd, buffer); err == nil {
			s, err := parse(buffer[:n])
			if err != nil {
				return Stat{}, fmt.Errorf("read %s: %w", path, err)
			}
			return s, nil
		}
	}
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, os.ErrPermission) || errors.Is(err, syscall.ESRCH) {
		return Stat{}, nil
	}
	return Stat{}, fmt.Errorf("read %s: %w", path, err)
}
