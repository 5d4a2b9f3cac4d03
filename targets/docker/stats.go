package docker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/client"

	"github.com/hpad/hpad/targets/sampling"
)

// errUnmeasured is the error for a container without usage data.
var errUnmeasured = errors.New("the engine returned no usage data: the container has just stopped, or the engine cannot read its cgroups (see \"no metrics received\" in its log)")

// readCounters reads the counters of one container without waiting for a second measurement.
func readCounters(ctx context.Context, engine *Engine, id string) (sampling.Counters, error) {
	var found sampling.Counters
	err := engine.Read(ctx, func(ctx context.Context, c *client.Client) error {
		answer, err := c.ContainerStatsOneShot(ctx, id)
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		if answer.OSType == "windows" {
			return errors.New("the usage data of Windows containers is not supported")
		}
		found, err = parseCounters(answer.Body)
		return err
	})
	return found, err
}

// parseCounters parses a stats document. If the container is not running or cannot be measured,
// the document has no time.
func parseCounters(body io.Reader) (sampling.Counters, error) {
	var document container.StatsResponse
	if err := json.NewDecoder(body).Decode(&document); err != nil {
		return sampling.Counters{}, fmt.Errorf("read a stats document: %w", err)
	}
	cpu := document.CPUStats.CPUUsage.TotalUsage
	found := sampling.Counters{At: document.Read, CPU: cpu, HasCPU: cpu > 0, Memory: workingSet(document.MemoryStats)}
	if found.At.IsZero() || !found.HasCPU && found.Memory < 0 {
		return sampling.Counters{}, errUnmeasured
	}
	return found, nil
}

// workingSet returns the used memory without inactive file pages, like "docker stats" and the
// kubelet. It returns -1 if the memory was not measured.
func workingSet(stats container.MemoryStats) int64 {
	// Larger values mean that the memory is unlimited.
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
