package process

import (
	"errors"
	"io"
	"os"
	"strconv"

	"github.com/hpad/hpad/targets/proc"
)

// usage is the resource usage of a process group.
type usage struct {
	// ticks is the CPU time of all processes in the group and of their awaited children.
	ticks uint64
	// bytes is the resident memory. Shared pages are counted once for each process.
	bytes uint64
	// started is the start time of the leader, or 0 if the leader was not found.
	started uint64
}

// readGroups returns the usage of process groups. It reads the proc file system once for all
// groups.
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
			s, err := proc.Read(root+"/"+name+"/stat", buffer)
			if err != nil {
				return nil, err
			}
			if !leaders[s.Group] {
				continue
			}
			sum := groups[s.Group]
			sum.ticks += s.Ticks
			sum.bytes += s.Pages * pageSize
			if pid == s.Group {
				sum.started = s.Started
			}
			groups[s.Group] = sum
		}
		if errors.Is(err, io.EOF) {
			return groups, nil
		}
		if err != nil {
			return nil, err
		}
	}
}
