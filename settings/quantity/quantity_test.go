package quantity

import (
	"math"
	"strings"
	"testing"

	"github.com/hpad/hpad/policy"
)

func TestParse(t *testing.T) {
	for _, test := range []struct {
		text      string
		milli     int64
		roundedUp int32
	}{
		{"0", 0, 0},
		{"500m", 500, 0},
		{"1", 1000, 0},
		{"1.5Gi", 1610612736000, 0},
		{"250u", 1, 750_000},      // R2
		{"1.0005", 1001, 500_000}, // R2
		{"33333n", 1, 966_667},    // R2
		{"0.1n", 1, 999_999},      // R1: finer than a nano is rounded away from zero first
		{"1e3", 1_000_000, 0},
		{"-1.0005", -1001, -500_000},
		{"9223372036854775", 9223372036854775000, 0},
	} {
		t.Run(test.text, func(t *testing.T) {
			got, err := Parse(test.text)
			want := policy.Amount{Resource: "cpu", Milli: test.milli, RoundedUpNano: test.roundedUp}
			if err != nil || got.Amount("cpu") != want {
				t.Errorf("Parse(%q) = %+v, %v, want %+v", test.text, got.Amount("cpu"), err, want)
			}
		})
	}
	for _, text := range []string{"", "x", "1.5GB", "--1", "1 Gi", "10Ei", "9300000000000000"} { // R3
		if got, err := Parse(text); err == nil {
			t.Errorf("Parse(%q) = %v, want an error", text, got)
		}
	}
}

func TestFloat(t *testing.T) { // R6
	three := 300.0
	for _, text := range []string{"0.3", "300m"} {
		got, err := Parse(text)
		if err != nil || got.Float() != three*1e-3 {
			t.Errorf("Parse(%q).Float() = %v, %v, want %v", text, got.Float(), err, three*1e-3)
		}
	}
}

// TestHugeExponent checks that a huge exponent is rejected before its digits are computed.
func TestHugeExponent(t *testing.T) {
	for _, text := range []string{"1e999999999", "1E+2147483647", "-1e999999999", "1e-999999999", "123456789012345678901234567890e999999999", "0.1e0001000"} {
		if got, err := Parse(text); err == nil || !strings.Contains(err.Error(), "is out of range: the exponent") {
			t.Errorf("Parse(%q) = %v, %v, want an error", text, got, err)
		}
	}
	for _, text := range []string{"1e0003", "1e-999", "1E", "1Ei"} {
		if _, err := Parse(text); err != nil && strings.Contains(err.Error(), "exponent") {
			t.Errorf("Parse(%q) = %v, want no error", text, err)
		}
	}
}

func TestFormatDecimal(t *testing.T) {
	for milli, want := range map[int64]string{
		0: "0", 80_000: "80", 16_500: "16.5", 833: "0.833", 50: "0.05", 1: "0.001", 1_200_500: "1200.5", 2_000_000: "2k",
		-500: "-0.5", math.MaxInt64: "9223372036854775.807",
	} {
		if got := FormatDecimal(milli); got != want {
			t.Errorf("FormatDecimal(%d) = %q, want %q", milli, got, want)
		}
	}
}

func TestFormatBytes(t *testing.T) {
	for milli, want := range map[int64]string{
		0: "0", 400 << 20 * 1000: "400Mi", 1 << 30 * 1000: "1Gi", 1536 << 20 * 1000: "1536Mi",
		500_000_000_000: "500M", 1_000_000_001_000: "1000000001", 1024_000: "1Ki", 1500: "1.5",
	} {
		if got := FormatBytes(milli); got != want {
			t.Errorf("FormatBytes(%d) = %q, want %q", milli, got, want)
		}
	}
}

func TestFormatMemory(t *testing.T) {
	for milli, want := range map[int64]string{
		0: "0", 50 << 20 * 1000: "50Mi", 1 << 30 * 1000: "1Gi", 1536 << 20 * 1000: "1536Mi", 1_500_000_000_000: "1430Mi",
		66_150_400_000: "63Mi", 66_150_400_001: "63Mi", 100_000_000: "97Ki", 1_000_000: "1k", 1500: "1",
	} {
		if got := FormatMemory(milli); got != want {
			t.Errorf("FormatMemory(%d) = %q, want %q", milli, got, want)
		}
	}
}
