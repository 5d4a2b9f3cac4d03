package policy

import (
	"math"
	"testing"
)

func TestConversionsSaturate(t *testing.T) { // R5
	for _, test := range []struct {
		float float64
		i32   int32 // rounded up
		cut   int32 // truncated
		i64   int64 // rounded up
	}{
		{0, 0, 0, 0},
		{1.2, 2, 1, 2},
		{-1.2, -1, -1, -1},
		{110.00000000000001, 111, 110, 111}, // R70
		{math.MaxInt32, math.MaxInt32, math.MaxInt32, math.MaxInt32},
		{math.MaxInt32 + 1.0, math.MaxInt32, math.MaxInt32, math.MaxInt32 + 1},
		{math.MinInt32 - 1.0, math.MinInt32, math.MinInt32, math.MinInt32 - 1},
		{1e19, math.MaxInt32, math.MaxInt32, math.MaxInt64},
		{-1e19, math.MinInt32, math.MinInt32, math.MinInt64},
		{math.Inf(1), math.MaxInt32, math.MaxInt32, math.MaxInt64},
		{math.Inf(-1), math.MinInt32, math.MinInt32, math.MinInt64},
		{math.NaN(), 0, 0, 0},
	} {
		if got := ceilToInt32(test.float); got != test.i32 {
			t.Errorf("ceilToInt32(%v) = %d, want %d", test.float, got, test.i32)
		}
		if got := truncateToInt32(test.float); got != test.cut {
			t.Errorf("truncateToInt32(%v) = %d, want %d", test.float, got, test.cut)
		}
		if got := ceilToInt64(test.float); got != test.i64 {
			t.Errorf("ceilToInt64(%v) = %d, want %d", test.float, got, test.i64)
		}
	}
}
