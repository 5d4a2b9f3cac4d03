package docker

import (
	"math"

	"github.com/docker/docker/api/types/container"

	"github.com/hpad/hpad/policy"
)

const (
	nanoPerCore     = 1_000_000_000
	nanoPerMilli    = 1_000_000
	sharesPerCore   = 1024
	defaultPeriodUs = 100_000
)

// Requests returns the resource requests of a container (R28). CPU comes from its limit, quota
// or shares, and memory from its reservation or limit; the first one set applies.
func Requests(c *container.HostConfig) []policy.Amount {
	if c == nil {
		return nil
	}
	nano := cpuLimit(c)
	if nano <= 0 && c.CPUShares > 0 {
		nano = int64(math.Round(float64(c.CPUShares) / sharesPerCore * nanoPerCore))
	}
	memory := c.MemoryReservation
	if memory <= 0 {
		memory = c.Memory
	}
	return Amounts(nano, memory)
}

// Limits returns the resource limits of a container.
func Limits(c *container.HostConfig) []policy.Amount {
	if c == nil {
		return nil
	}
	return Amounts(cpuLimit(c), c.Memory)
}

// cpuLimit returns the limit or quota of a container in billionths of a core, or 0.
func cpuLimit(c *container.HostConfig) int64 {
	if c.NanoCPUs > 0 || c.CPUQuota <= 0 {
		return c.NanoCPUs
	}
	period := c.CPUPeriod
	if period <= 0 {
		period = defaultPeriodUs
	}
	return int64(math.Round(float64(c.CPUQuota) / float64(period) * nanoPerCore))
}

// Amounts returns amounts for nanoCores billionths of a core and for bytes of memory. It
// leaves out amounts that are not positive.
func Amounts(nanoCores, bytes int64) []policy.Amount {
	var amounts []policy.Amount
	if nanoCores > 0 {
		milli := (nanoCores-1)/nanoPerMilli + 1 // rounded away from zero (R2)
		amounts = append(amounts, policy.Amount{Resource: "cpu", Milli: milli, RoundedUpNano: int32(milli*nanoPerMilli - nanoCores)})
	}
	if bytes > 0 && bytes <= math.MaxInt64/1000 {
		amounts = append(amounts, policy.Amount{Resource: "memory", Milli: bytes * 1000})
	}
	return amounts
}
