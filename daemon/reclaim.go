package daemon

import (
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Memory is given back so long after it was of use: not before what comes with it is
// through. It takes a collection of all garbage, and so it is not done more often than
// that.
const (
	reclaimDelay = 2 * time.Second
	reclaimEvery = 10 * time.Second
)

// memory is what a daemon does about its process's memory. The zero value is ready to use.
type memory struct {
	// keeps has it give back nothing.
	keeps bool

	mu sync.Mutex
	// begun ends what the start has begun; nil before that.
	begun func()
}

// reclaimer gives memory back to the system: after the first round, which reads
// everything, and after large answers. Without it the collector keeps as much again for
// the next one, and gives it back over minutes. The zero value is ready to use.
type reclaimer struct {
	mu sync.Mutex
	// asked has what follows for each who asked; empty while it is not due.
	asked []func()
	last  time.Time
}

// processMemory gives back what all daemons of the process have no use for, of which there are
// many where fleets are shared.
var processMemory reclaimer

// startingPercent is Go's garbage collection percentage while a daemon starts.
const startingPercent = 40

// starting counts what starts. Usual is the percentage of all other times.
var starting struct {
	sync.Mutex
	underWay, usual int
}

// Starting has garbage collected more often until what starts is over: what stays of a
// configuration and of a first round is made among several times as much that goes, and
// holds the pages that both are in. Over may be called again. Who sets GOGC has it as it
// is set.
func Starting() (over func()) {
	if os.Getenv("GOGC") != "" {
		return func() {}
	}
	change := func(by int) {
		starting.Lock()
		defer starting.Unlock()
		if starting.underWay == 0 {
			starting.usual = debug.SetGCPercent(startingPercent)
		}
		if starting.underWay += by; starting.underWay == 0 {
			debug.SetGCPercent(starting.usual)
		}
	}
	change(1)
	return sync.OnceFunc(func() { change(-1) })
}

// begin has garbage collected more often until memory is given back first, or until end.
func (m *memory) begin() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.keeps {
		m.begun = Starting()
	}
}

func (m *memory) end() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.begun != nil {
		m.begun()
	}
}

// reclaim has memory given back after a while.
func (m *memory) reclaim() {
	if !m.keeps {
		processMemory.reclaim(m.end)
	}
}

// reclaim gives memory back after a while, once for all that ask meanwhile, after it has
// called what each of them gave.
func (r *reclaimer) reclaim(first func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.asked = append(r.asked, first); len(r.asked) > 1 {
		return
	}
	time.AfterFunc(max(reclaimDelay, time.Until(r.last.Add(reclaimEvery))), func() {
		r.mu.Lock()
		asked := r.asked
		r.asked, r.last = nil, time.Now()
		r.mu.Unlock()
		for _, first := range asked {
			first()
		}
		debug.FreeOSMemory()
		letGo()
	})
}

// letGo lets go of the pages of the program's own file, of which the start touches many
// that are not of use again. They stay in the system's cache, and come back as they are
// touched. No other file's are touched: it might be unmapped meanwhile, and its place be
// something else's.
func letGo() { letGoOf(ownMappings()) }

// ownMappings returns those of the program's own file, which stay as they are; none where
// there is no such thing.
var ownMappings = sync.OnceValue(func() []mapping {
	program, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return nil
	}
	return mappingsOf(program)
})

// mappingsOf returns the mappings of a file that letGoOf may be called with.
func mappingsOf(file string) []mapping {
	smaps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		return nil
	}
	return readOnly(string(smaps), file)
}

// letGoOf lets go of the pages of mappings, which stay mapped meanwhile.
func letGoOf(mappings []mapping) {
	for _, m := range mappings {
		_, _, _ = unix.Syscall(unix.SYS_MADVISE, m.from, m.size, unix.MADV_DONTNEED) // as well as it can be done
	}
}

// mapping is a part of the address space.
type mapping struct{ from, size uintptr }

// readOnly returns the mappings of a file, by the text of /proc/self/smaps, whose pages
// all are as in the file: they cannot be written, and were not before that, as those are
// that the linker has filled in.
func readOnly(smaps, file string) []mapping {
	var found []mapping
	var last mapping
	same := false
	for line := range strings.Lines(smaps) {
		fields := strings.Fields(line)
		switch {
		case len(fields) == 6 && fields[5] == file && !strings.Contains(fields[1], "w"):
			first, end, _ := strings.Cut(fields[0], "-")
			from, fromErr := strconv.ParseUint(first, 16, 64)
			to, toErr := strconv.ParseUint(end, 16, 64)
			if fromErr == nil && toErr == nil && from < to {
				last = mapping{uintptr(from), uintptr(to - from)}
			}
		case len(fields) >= 5 && !strings.HasSuffix(fields[0], ":"):
			last = mapping{}
		case len(fields) == 3 && fields[0] == "Anonymous:":
			same = fields[1] == "0"
		case len(fields) == 3 && fields[0] == "Swap:" && fields[1] == "0" && same && last.size > 0:
			found = append(found, last)
		}
	}
	return found
}
