package docker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/client"

	"github.com/hpad/hpad/policy"
)

// errUnmeasured is the error of a container whose use the engine does not know.
var errUnmeasured = errors.New("the engine measures nothing of it: it just stopped, or the engine cannot read its cgroups (its log then says \"no metrics received\")")

// counters are those of a container at one time.
type counters struct {
	// started is the container's start, read the engine's time of measuring.
	started, read time.Time
	// cpu is in nanoseconds; 0 where it is not measured.
	cpu uint64
	// memory is the working set in bytes; negative where it is not measured.
	memory int64
}

// readCounters reads the counters of one container, without waiting for a second
// measurement.
func readCounters(ctx context.Context, engine *Engine, id string) (counters, error) {
	var found counters
	err := engine.Read(ctx, func(ctx context.Context, c *client.Client) error {
		answer, err := c.ContainerStatsOneShot(ctx, id)
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		if answer.OSType == "windows" {
			return errors.New("it counts as Windows does, which hpad does not read")
		}
		found, err = parseCounters(answer.Body)
		return err
	})
	return found, err
}

// parseCounters parses a stats document. One of a container that does not run, or that
// the engine cannot measure, has no time.
func parseCounters(body io.Reader) (counters, error) {
	var document container.StatsResponse
	if err := json.NewDecoder(body).Decode(&document); err != nil {
		return counters{}, fmt.Errorf("read a stats document: %w", err)
	}
	found := counters{read: document.Read, cpu: document.CPUStats.CPUUsage.TotalUsage, memory: workingSet(document.MemoryStats)}
	if found.read.IsZero() || found.cpu == 0 && found.memory < 0 {
		return counters{}, errUnmeasured
	}
	return found, nil
}

// workingSet returns the memory that counts as used, as for "docker stats" and the
// kubelet: without what the page cache has not touched lately. It is negative where
// nothing was measured.
func workingSet(stats container.MemoryStats) int64 {
	// A number this large is none.
	const highest = math.MaxInt64 / 1000
	if stats.Usage == 0 || stats.Usage > highest {
		return -1
	}
	inactive, v1 := stats.Stats["total_inactive_file"] // cgroup v1
	if !v1 || inactive >= stats.Usage {
		inactive = stats.Stats["inactive_file"] // cgroup v2
	}
	if inactive >= stats.Usage {
		inactive = 0
	}
	return int64(stats.Usage - inactive)
}

// usage returns what a container used between two readings of its counters, as far as it
// was measured.
func usage(before, after counters) []policy.Amount {
	var used []policy.Amount
	span := after.read.Sub(before.read).Nanoseconds()
	if before.cpu > 0 && after.cpu >= before.cpu && span > 0 {
		thousandths := math.Ceil(float64(after.cpu-before.cpu) * 1000 / float64(span)) // away from zero (R2)
		if thousandths <= math.MaxInt32 {
			used = append(used, policy.Amount{Resource: "cpu", Milli: int64(thousandths)})
		}
	}
	if after.memory >= 0 {
		used = append(used, policy.Amount{Resource: "memory", Milli: after.memory * 1000})
	}
	return used
}
