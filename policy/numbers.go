package policy

import (
	"math"
	"strconv"
)

func ceilToInt32(f float64) int32 { return truncateToInt32(math.Ceil(f)) }

// truncateToInt32 rounds toward zero and saturates; NaN is 0 (R5).
func truncateToInt32(f float64) int32 {
	switch {
	case math.IsNaN(f):
		return 0
	case f >= math.MaxInt32:
		return math.MaxInt32
	case f <= math.MinInt32:
		return math.MinInt32
	}
	return int32(f)
}

func ceilToInt64(f float64) int64 {
	f = math.Ceil(f)
	switch {
	case math.IsNaN(f):
		return 0
	case f >= math.MaxInt64:
		return math.MaxInt64
	case f <= math.MinInt64:
		return math.MinInt64
	}
	return int64(f)
}

func saturateToInt32(n int64) int32 {
	return int32(min(max(n, math.MinInt32), math.MaxInt32))
}

func finite(f float64) bool { return !math.IsNaN(f) && !math.IsInf(f, 0) }

// recorded returns the nearest finite float, for JSON.
func recorded(f float64) float64 {
	if math.IsNaN(f) {
		return 0
	}
	return min(max(f, -math.MaxFloat64), math.MaxFloat64)
}

func itoa(n int32) string { return strconv.FormatInt(int64(n), 10) }
