package observe_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/hpad/hpad/daemon/daemontest"
	"github.com/hpad/hpad/daemon/explain"
	"github.com/hpad/hpad/sources"
)

// TestSampleAge checks that explain shows the age of a sample if it exceeds the sync period. It
// measures the age with an additional query.
func TestSampleAge(t *testing.T) {
	const want = "oldest sample: 40s old, more than the sync period"
	for name, c := range map[string]struct {
		measured time.Duration
		want     string
	}{
		"measured":        {40 * time.Second, want},
		"measured, young": {14 * time.Second, ""},
		"unknown":         {0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			daemontest.Run(t, func(t *testing.T, w *daemontest.World) {
				w.AddWithValue("web", 6, 6)
				queries := 0
				w.Source().SetDiagnose(func(_ context.Context, text string, _ time.Time) (sources.Vector, error) {
					if queries++; !strings.Contains(text, "time() - timestamp(web)") {
						t.Errorf("unexpected age query %s", text)
					}
					if c.measured == 0 {
						return sources.Vector{}, nil
					}
					age := daemontest.Part("whole")
					age.Value = c.measured.Seconds()
					return sources.Vector{Series: []sources.Series{age}}, nil
				})
				w.Start()
				w.Advance(time.Minute)
				if queries > 0 {
					t.Errorf("%d queries for ages that are not shown, want 0", queries)
				}
				var text strings.Builder
				for range 10 {
					text.Reset()
					if err := explain.Write(&text, w.View("web").Explanation(), time.UTC); err != nil {
						t.Fatal(err)
					}
				}
				if got := strings.Contains(text.String(), "oldest sample"); got != (c.want != "") || !strings.Contains(text.String(), c.want) {
					t.Errorf("explain output:\n%s\nwant %q", text.String(), c.want)
				}
				if queries > 1 {
					t.Errorf("%d queries for 10 consecutive views, want at most 1", queries)
				}
			})
		})
	}
}
