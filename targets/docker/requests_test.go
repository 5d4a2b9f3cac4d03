package docker

import (
	"math"
	"testing"

	"github.com/docker/docker/api/types/container"
	"github.com/google/go-cmp/cmp"

	"github.com/hpad/hpad/policy"
)

func TestRequests(t *testing.T) {
	cpu := func(milli int64, roundedUp int32) policy.Amount {
		return policy.Amount{Resource: "cpu", Milli: milli, RoundedUpNano: roundedUp}
	}
	memory := func(bytes int64) policy.Amount { return policy.Amount{Resource: "memory", Milli: bytes * 1000} }
	for _, test := range []struct {
		name      string
		resources container.Resources
		want      []policy.Amount
	}{
		{"nothing", container.Resources{}, nil},
		{"cpus and memory", container.Resources{NanoCPUs: 500_000_000, Memory: 256 << 20}, []policy.Amount{cpu(500, 0), memory(256 << 20)}},
		{"a fraction of a thousandth", container.Resources{NanoCPUs: 333_333_333}, []policy.Amount{cpu(334, 666_667)}},
		{"cpus before quota and shares", container.Resources{NanoCPUs: 1_000_000_000, CPUQuota: 50_000, CPUShares: 512}, []policy.Amount{cpu(1000, 0)}},
		{"quota with the default period", container.Resources{CPUQuota: 50_000, CPUShares: 2048}, []policy.Amount{cpu(500, 0)}},
		{"quota with another period", container.Resources{CPUQuota: 50_000, CPUPeriod: 25_000}, []policy.Amount{cpu(2000, 0)}},
		{"no quota", container.Resources{CPUQuota: -1, CPUShares: 512}, []policy.Amount{cpu(500, 0)}},
		{"shares", container.Resources{CPUShares: 1536}, []policy.Amount{cpu(1500, 0)}},
		{"reservation before limit", container.Resources{Memory: 256 << 20, MemoryReservation: 64 << 20}, []policy.Amount{memory(64 << 20)}},
		{"memory overflow", container.Resources{Memory: math.MaxInt64}, nil},
	} {
		if difference := cmp.Diff(test.want, Requests(&container.HostConfig{Resources: test.resources})); difference != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, difference)
		}
	}
	if got := Requests(nil); got != nil {
		t.Errorf("Requests(nil) = %v", got)
	}
}

// TestLimits checks that shares and reservations are not limits.
func TestLimits(t *testing.T) {
	cpu, memory := policy.Amount{Resource: "cpu", Milli: 500}, policy.Amount{Resource: "memory", Milli: 256 << 20 * 1000}
	for _, test := range []struct {
		name      string
		resources container.Resources
		want      []policy.Amount
	}{
		{"no limits", container.Resources{CPUQuota: -1, CPUShares: 512, MemoryReservation: 64 << 20}, nil},
		{"cpus and memory", container.Resources{NanoCPUs: 500_000_000, Memory: 256 << 20, MemoryReservation: 64 << 20}, []policy.Amount{cpu, memory}},
		{"quota", container.Resources{CPUQuota: 50_000, CPUShares: 2048}, []policy.Amount{cpu}},
	} {
		if difference := cmp.Diff(test.want, Limits(&container.HostConfig{Resources: test.resources})); difference != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, difference)
		}
	}
	if got := Limits(nil); got != nil {
		t.Errorf("Limits(nil) = %v", got)
	}
}
