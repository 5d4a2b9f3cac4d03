package sampling

import (
	"math"
	"time"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
)

// Counters are the resource usage of an instance, read at one time.
type Counters struct {
	// Run identifies the run of the instance and the origin of the counters. Counters of
	// different runs are not compared.
	Run string
	At  time.Time
	// CPU is the time used since the start, in nanoseconds. It is valid only if HasCPU is set.
	CPU    uint64
	HasCPU bool
	// Memory is in bytes, or negative if it is not measured.
	Memory int64
}

// Usage measures an instance between two readings of its counters. The zero Usage has no reading
// yet.
type Usage struct {
	Counters
	// Err is the error of the last reading.
	Err error

	window  time.Duration
	amounts []policy.Amount
	// added is the time of the last reading according to the local clock.
	added time.Time
}

// Add adds a reading. The usage is empty if the instance was restarted since the previous
// reading, if the clock of the counters was set back, or if the two readings are further apart
// than validity.
func (u *Usage) Add(found Counters, now time.Time, validity time.Duration) {
	u.Err = nil
	before := u.Counters
	if before.Run == found.Run && before.At.Equal(found.At) {
		return // the platform has no new measurement
	}
	u.Counters, u.amounts, u.added = found, nil, now
	u.window = found.At.Sub(before.At)
	if before.At.IsZero() || before.Run != found.Run || u.window <= 0 || u.window > validity {
		return
	}
	if before.HasCPU && found.HasCPU && found.CPU >= before.CPU {
		milli := math.Ceil(float64(found.CPU-before.CPU) * 1000 / float64(u.window)) // rounded away from zero (R2)
		if milli <= math.MaxInt32 {
			u.amounts = append(u.amounts, policy.Amount{Resource: "cpu", Milli: int64(milli)})
		}
	}
	if found.Memory >= 0 {
		u.amounts = append(u.amounts, policy.Amount{Resource: "memory", Milli: found.Memory * 1000})
	}
}

// Sample returns the usage of an instance with one task. It returns nil if the usage is empty
// or older than validity.
func (u *Usage) Sample(id, task string, validity time.Duration) *targets.InstanceSample {
	if len(u.amounts) == 0 || time.Since(u.added) > validity {
		return nil
	}
	at := u.At
	if at.After(u.added) { // the clock of the platform is ahead
		at = u.added
	}
	return &targets.InstanceSample{ID: id, At: at, Window: u.window, Tasks: []policy.TaskUsage{{Task: task, Usage: u.amounts}}}
}
