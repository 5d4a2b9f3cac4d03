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
			var w written[string]
			w.add("web", "a", write{size: 5}, begun)
			w.add("web", "b", write{size: 7}, begun)
			for _, l := range looks {
				var got []int
				for _, one := range w.unseen("web", l.version, begun.Add(l.after)) {
					got = append(got, int(one.size))
				}
				if !slices.Equal(got, l.want) {
					t.Errorf("unseen(%q) after %v = %v, want %v", l.version, l.after, got, l.want)
				}
			}
			if got := w.unseen("shop", "a", begun); got != nil {
				t.Errorf("unseen() of another target = %v", got)
			}
		})
	}
}
