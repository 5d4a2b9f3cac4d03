package formula

import (
	"slices"
	"strings"
	"testing"
)

func TestEvaluate(t *testing.T) {
	values := map[string]float64{"queue": 30, "latency": 0.5, "idle": 0}
	for text, want := range map[string]any{
		`0.7 * queue + 0.3 * latency`:           21.15,
		`queue`:                                 30.0,
		`7`:                                     7.0,
		`queue / 4`:                             7.5,
		`(1 + 2) / 2 * queue`:                   45.0,
		`7 / 2`:                                 3.5,
		`-queue`:                                -30.0,
		`queue > 20 and latency < 1 ? 5 : idle`: 5.0,
		`max(queue, latency * 100)`:             50.0,
		`min(queue, 10) + round(latency)`:       11.0,
		`queue ** 2`:                            900.0,
		`9223372036854775807 + 1 + 0 * queue`:   9223372036854775808.0,
		`3000000000 * 4000000000 + 0 * queue`:   1.2e19,
		`-9223372036854775807 - 3`:              -9223372036854775808.0,
		`0xffffffff * 0xffffffff`:               18446744065119617025.0,
		`10 ** 19 + 0b1 + 0o7`:                  10000000000000000008.0,
		`max(abs(-9223372036854775807), 1) * 2`: 18446744073709551616.0,
		`9223372036854775807 * 2 > 5 ? 1 : 2`:   1.0,
		`queue / idle`:                          "division by zero",
		`idle / idle`:                           "division by zero",
		`1 / (queue / idle)`:                    "division by zero",
		`queue > 5 ? 1 / idle : 3`:              "division by zero",
		`queue < 5 ? 1 / idle : 3`:              3.0,
		`10.0 ** 300 * queue * 10.0 ** 300`:     "the result is +Inf",
		`(0 - queue) ** 0.5`:                    "the result is NaN",
	} {
		f, err := Parse(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		switch got, err := f.Evaluate(values); {
		case err != nil && want != err.Error(), err == nil && want != got:
			t.Errorf("%s = %v, %v, want %v", text, got, err, want)
		}
	}
}

func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		``:                                "is incomplete",
		`queue +`:                         "is incomplete",
		`queue / 0`:                       "divides by zero (0)",
		`queue / (2 - 2)`:                 "divides by zero (2 - 2)",
		`queue / (1 / 0)`:                 "divides by zero (0)",
		`queue > 5`:                       "must be a number",
		`queue + (latency > 2)`:           "mismatched types",
		`"text"`:                          "must consist of",
		`[queue]`:                         "must consist of",
		`sum(1..1000000)`:                 "not",
		`map(1..9, # * 2)`:                "not",
		`1..1000000`:                      "operator ..",
		`queue.size`:                      "must consist of",
		`queue()`:                         "is not a function",
		`len("abc")`:                      "must consist of",
		`let x = 5; x`:                    "must consist of",
		`round(queue, 2)`:                 "round takes one argument",
		`max()`:                           "call max",
		`quotient(1, 0)`:                  "is not a function",
		`queue % 2`:                       "operator %",
		`queue + 9223372036854775808`:     "does not fit 64 bits",
		strings.Repeat("1 + ", 300) + "1": "at most 1000 bytes",
		strings.Repeat("1+", 300) + "1":   "exceeds maximum",
		strings.Repeat("1/(", 300) + "0":  "is incomplete",
		strings.Repeat("1/(", 150) + "0" + strings.Repeat(")", 150): "divides by zero (0)",
		strings.Repeat("(", 500) + "queue":                          "is incomplete",
	} {
		if _, err := Parse(text); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%.40s: error %v, want %q", text, err, want)
		}
	}
	f, err := Parse("a + b * max(a, c)")
	if want := []string{"a", "b", "c"}; err != nil || !slices.Equal(f.Names(), want) {
		t.Errorf("names %v (%v), want %v", f.Names(), err, want)
	}
}
