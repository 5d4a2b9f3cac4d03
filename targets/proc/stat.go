package proc

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"
)

// ClockTicks is the unit of the times in /proc, in ticks a second. Linux has no
// other towards programs, on all machines that Go runs on.
const ClockTicks = 100

// Stat is what is read of one process in /proc.
type Stat struct {
	// Group is its process group.
	Group int
	// Ticks is the cpu time of the process and of the children it waited for.
	Ticks uint64
	// Started tells processes of the same number apart.
	Started uint64
	// Pages is the resident memory.
	Pages uint64
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

// Parse reads the text of /proc/PID/stat. The name in it is in parentheses,
// and may itself have parentheses, spaces and line feeds.
func Parse(text []byte) (Stat, error) {
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

// Read reads the stat file of one process, at a path, into a buffer of at least 4 KiB.
// A process that has gone, or that is somebody else's and hidden, is the zero Stat, in
// no group.
func Read(path string, buffer []byte) (Stat, error) {
	fd, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err == nil {
		defer func() { _ = syscall.Close(fd) }()
		var n int
		if n, err = syscall.Read(fd, buffer); err == nil {
			s, err := Parse(buffer[:n])
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
