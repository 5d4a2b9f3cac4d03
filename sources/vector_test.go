package sources

import (
	"math"
	"testing"
)

func TestMilli(t *testing.T) {
	for _, test := range []struct {
		name  string
		value float64
		want  int64
	}{
		{"zero", 0, 0},
		{"truncates toward zero", 90.00000000000001, 90000},
		{"truncates a fraction", 0.0009999, 0},
		{"truncates a negative toward zero", -1.2345678, -1234},
		{"largest that fits", 9.2e15, 9_200_000_000_000_000_000},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := Milli(test.value)
			if err != nil || got != test.want {
				t.Errorf("Milli(%v) = %d, %v, want %d, nil", test.value, got, err, test.want)
			}
		})
	}
	for _, value := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), 9.3e15, -9.3e15} {
		if got, err := Milli(value); err == nil {
			t.Errorf("Milli(%v) = %d, want an error", value, got)
		}
	}
}
