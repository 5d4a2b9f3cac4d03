package cloud

import (
	"slices"
	"testing"
	"time"
)

// TestWritten: changes are believed while the platform shows a target as it was before
// one of them, for a minute, and no longer than until it shows anything else.
func TestWritten(t *testing.T) {
	begun := time.Now()
	type look struct {
		version string
		after   time.Duration
		want    []int
	}
	for name, looks := range map[string][]look{
		"lags":                         {{"a", 0, []int{5, 7}}, {"b", believed, []int{5, 7}}},
		"lags too long":                {{"a", believed + 1, nil}, {"a", 0, nil}},
		"shows it, then the old":       {{"b", 0, []int{5, 7}}, {"c", 1, nil}, {"b", 2, nil}},
		"shows somebody else's change": {{"z", 0, nil}, {"a", 1, nil}},
	} {
		t.Run(name, func(t *testing.T) {
			var w Written[string, int]
			w.Add("web", "a", 5, begun)
			w.Add("web", "b", 7, begun)
			for _, l := range looks {
				if got := w.Unseen("web", l.version, begun.Add(l.after)); !slices.Equal(got, l.want) {
					t.Errorf("Unseen(%q) after %v = %v, want %v", l.version, l.after, got, l.want)
				}
			}
			if got := w.Unseen("shop", "a", begun); got != nil {
				t.Errorf("Unseen() of another target = %v", got)
			}
		})
	}
}
