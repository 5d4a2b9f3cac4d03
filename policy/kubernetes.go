package policy

import (
	"math"
	"math/big"
)

// Kubernetes is the minor version of Kubernetes whose HPA makes the same decisions. All differences
// between the versions are in this file.
type Kubernetes string

// The versions.
const (
	Kubernetes137 Kubernetes = ""
	Kubernetes138 Kubernetes = "1.38"
)

// ignores reports whether instances in a phase are ignored (R27).
func (k Kubernetes) ignores(phase Phase) bool {
	return phase == PhaseFailed || k == Kubernetes138 && phase == PhaseSucceeded
}

// averageWhole returns the average of an Object or External metric per status replica (R45). It
// returns false if there is no such number.
func (k Kubernetes) averageWhole(metric MetricType, usage int64, replicas int32) (int64, bool) {
	switch {
	case float64(usage) >= math.MaxInt64 && (metric == ExternalMetric || k == Kubernetes138):
		return math.MaxInt64, true
	case replicas == 0:
		return 0, k == Kubernetes138
	}
	return ceilToInt64(float64(usage) / float64(replicas)), true
}

// total returns a sum of n (R4).
func (k Kubernetes) total(n int64) total { return total{small: n, exact: k == Kubernetes138} }

// total is a sum over instances (R4). It wraps on overflow, or it is exact since Kubernetes 1.38.
type total struct {
	small int64
	exact bool
	// large replaces small after an overflow of an exact sum, otherwise nil. It is never modified.
	large *big.Int
}

// add adds n.
func (t *total) add(n int64) {
	sum := t.small + n
	if t.large != nil || t.exact && (sum > t.small) != (n > 0) && n != 0 {
		t.large = new(big.Int).Add(t.big(), big.NewInt(n))
		return
	}
	t.small = sum
}

// plus returns the sum of two totals.
func (t total) plus(other total) total {
	if other.large != nil {
		t.large = new(big.Int).Add(t.big(), other.large)
		return t
	}
	t.add(other.small)
	return t
}

func (t *total) big() *big.Int {
	if t.large != nil {
		return t.large
	}
	return big.NewInt(t.small)
}

func (t total) isZero() bool { return t.big().Sign() == 0 }

// saturated returns the nearest 64-bit number, for records.
func (t total) saturated() int64 {
	switch {
	case t.large == nil:
		return t.small
	case t.large.IsInt64():
		return t.large.Int64()
	case t.large.Sign() > 0:
		return math.MaxInt64
	}
	return math.MinInt64
}

// average returns the average of n numbers, which fits 64 bits if the sum is exact.
func (t total) average(n int) int64 {
	if t.large == nil {
		return t.small / int64(n)
	}
	return new(big.Int).Quo(t.large, big.NewInt(int64(n))).Int64()
}

// percentOf returns the total as a whole percentage of another total (R35). It saturates at 32 bits
// if the totals are exact, and otherwise wraps.
func (t total) percentOf(whole total) int32 {
	const hundred = 100
	if !t.exact {
		return int32(t.small * hundred / whole.small)
	}
	percent := new(big.Int).Mul(t.big(), big.NewInt(hundred))
	return saturateToInt32(total{large: percent.Quo(percent, whole.big())}.saturated())
}
