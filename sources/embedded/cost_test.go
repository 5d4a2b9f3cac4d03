package embedded

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/hpad/hpad/sources"
)

func TestCost(t *testing.T) {
	for text, want := range map[string]cost{
		"up":                                 {0, 1},
		"up[":                                {0, 1},
		"rate(up[1h])":                       {0, 1},
		"max_over_time(up[1h:1s])":           {3601, 1},
		"max_over_time(up[1h:])":             {61, 1},
		"max_over_time(rate(up[5m])[1h:1m])": {61, 1},
		"max_over_time(up[1m:1s]) + max_over_time(up[2m:1s])":                                         {61 + 121, 1},
		"max_over_time(max_over_time(up[1m:1s])[1h:1m])":                                              {61 + 3661, 1},
		"max_over_time(max_over_time(max_over_time(up[200y:1ms])[200y:1ms])[200y:1ms])":               {math.MaxInt64, 1},
		`label_replace(up, "a", "$1-$2", "b", "(.*)-(.*)")`:                                           {0, 2},
		`label_replace(up, "a", "", "b", "")`:                                                         {0, 1},
		`label_join(label_replace(up, "a", "$1$1$1", "a", "(.*)"), "a", "", "a", "a", "a", "a") + up`: {0, 12},
	} {
		if got := costOf(text); got != want {
			t.Errorf("costOf(%s) = %+v, want %+v", text, got, want)
		}
	}
}

// A query whose cost the engine does not count does not get to it.
func TestQueriesOfHiddenCost(t *testing.T) {
	source := started(t, config(), Options{Samples: sources.NewBudget(10_000_000, "")})
	doubled := "vector(1)"
	for range 40 {
		doubled = fmt.Sprintf(`label_replace(%s, "a", "x$1$1", "a", "(.*)")`, doubled)
	}
	for text, want := range map[string]string{
		"count_over_time(vector(1)[10000h:1ms])":                     "its subqueries have 36000000001 steps, more than max_samples = 5000000",
		"count_over_time(count_over_time(absent(x)[1d:1d])[3d:1ms])": "its subqueries have ",
		doubled: "could make a label 1099511627776 times longer, and 64 times is the most",
	} {
		if _, err := source.Query(t.Context(), sources.Query{Text: text}, time.Now()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("query %.100s failed with %v, want %q", text, err, want)
		}
	}
}
