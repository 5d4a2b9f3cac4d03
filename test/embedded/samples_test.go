package embedded

import (
	"cmp"
	"errors"
	"io"
	"math"
	"os"
	"slices"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
	"github.com/prometheus/prometheus/model/value"
)

// sample is one recorded value of one series; at is in milliseconds.
type sample struct {
	series labels.Labels
	at     int64
	value  float64
}

// recorded returns the samples of testdata in the order of time. Those of
// stale.om become staleness markers, which no exposition can state.
func recorded(t *testing.T) []sample {
	t.Helper()
	samples := parseFile(t, "testdata/samples.om")
	for _, marker := range parseFile(t, "testdata/stale.om") {
		marker.value = math.Float64frombits(value.StaleNaN)
		samples = append(samples, marker)
	}
	slices.SortStableFunc(samples, func(a, b sample) int { return cmp.Compare(a.at, b.at) })
	return samples
}

func parseFile(t *testing.T, path string) []sample {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	parser, err := textparse.New(text, "application/openmetrics-text; version=1.0.0", nil, textparse.ParserOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var samples []sample
	for {
		entry, err := parser.Next()
		if errors.Is(err, io.EOF) {
			return samples
		}
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		if entry != textparse.EntrySeries {
			continue
		}
		s := sample{}
		_, at, v := parser.Series()
		if at == nil {
			t.Fatalf("%s: a sample has no time", path)
		}
		s.at, s.value = *at, v
		parser.Labels(&s.series)
		samples = append(samples, s)
	}
}
