package graph

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/klauspost/compress/zstd"

	"github.com/hpad/hpad/daemon/api"
)

// row is a point in a block. Its values are the four counts, followed by the proposal and the value
// of each metric. NaN means unknown.
type row struct {
	time    int64 // Unix time in seconds
	metrics []string
	values  []float64
}

// counts is the number of values in a row before the values of the metrics.
const counts = 4

// run is a list of rows with the same metrics. Each row is a time followed by its values.
type run struct {
	Metrics []string     `json:"metrics"`
	Rows    []api.Column `json:"rows"`
}

// The encoder and decoder are safe for concurrent use. Blocks contain a checksum.
var (
	encoder, _ = zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithWindowSize(64<<10))
	decoder, _ = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(16<<20))
)

// The first call creates the encoder's channels. It must happen outside a synctest bubble, because
// channels from a bubble cannot be used outside it.
func init() { encoder.EncodeAll(nil, nil) }

// blockError is an error from reading a block.
type blockError struct{ err error }

func (e *blockError) Error() string { return fmt.Sprintf("read a block: %v", e.err) }

// encode encodes rows as a block: a compressed JSON list of runs.
func encode(rows []row) ([]byte, error) {
	var runs []run
	for i, r := range rows {
		if i == 0 || !slices.Equal(r.metrics, rows[i-1].metrics) {
			runs = append(runs, run{Metrics: r.metrics})
		}
		last := &runs[len(runs)-1]
		last.Rows = append(last.Rows, append(api.Column{float64(r.time)}, r.values...))
	}
	text, err := json.Marshal(runs)
	return encoder.EncodeAll(text, nil), err
}

// rounded rounds a number to five significant digits, which saves space.
func rounded(v float64) float64 {
	short, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 5, 64), 64)
	if err != nil {
		return v // rounding would overflow
	}
	return short
}

// decode appends the rows of a block to a slice. All its errors have the type *blockError.
func decode(to []row, block []byte) ([]row, error) {
	text, err := decoder.DecodeAll(block, nil)
	if err != nil {
		return nil, &blockError{err}
	}
	var runs []run
	if err := json.Unmarshal(text, &runs); err != nil {
		return nil, &blockError{err}
	}
	for _, run := range runs {
		want := 1 + counts + 2*len(run.Metrics)
		for _, numbers := range run.Rows {
			if len(numbers) != want {
				return nil, &blockError{fmt.Errorf("a row has %d numbers, want %d", len(numbers), want)}
			}
			to = append(to, row{time: int64(numbers[0]), metrics: run.Metrics, values: numbers[1:]})
		}
	}
	return to, nil
}

// inOrder sorts rows by time. If several rows have the same time, it keeps the first one.
func inOrder(rows []row) []row {
	slices.SortStableFunc(rows, func(a, b row) int { return int(max(-1, min(1, a.time-b.time))) })
	return slices.CompactFunc(rows, func(a, b row) bool { return a.time == b.time })
}

// thinned returns the last row in each interval of length Thin.
func thinned(rows []row) []row {
	const step = int64(thin / 1e9)
	var thin []row
	for i := range rows {
		if i == len(rows)-1 || rows[i].time/step != rows[i+1].time/step {
			thin = append(thin, rows[i])
		}
	}
	return thin
}
