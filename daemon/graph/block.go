package graph

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/klauspost/compress/zstd"
)

// row is a point in a block. It has the columns of the pass, followed by the columns of each metric.
type row struct {
	time    int64 // Unix time in milliseconds
	metrics []string
	values  []int64
}

// run is a list of rows with the same metrics, as columns. The first column contains the times. Each
// column contains its first value, followed by the differences between successive values. Zeros at
// the end are omitted, so that a constant column has at most one element.
type run struct {
	Metrics []string  `json:"metrics"`
	Columns [][]int64 `json:"columns"`
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
	for len(rows) > 0 {
		n := slices.IndexFunc(rows, func(r row) bool { return !slices.Equal(r.metrics, rows[0].metrics) })
		if n < 0 {
			n = len(rows)
		}
		runs = append(runs, runOf(rows[:n]))
		rows = rows[n:]
	}
	text, err := json.Marshal(runs)
	return encoder.EncodeAll(text, nil), err
}

func runOf(rows []row) run {
	n, width := len(rows), 1+len(rows[0].values)
	r := run{Metrics: rows[0].metrics, Columns: make([][]int64, width)}
	all := make([]int64, n*width)
	for c := range r.Columns {
		column, before, used := all[c*n:(c+1)*n], int64(0), 0
		for i := range rows {
			value := rows[i].time
			if c > 0 {
				value = rows[i].values[c-1]
			}
			if column[i] = value - before; column[i] != 0 {
				used = i + 1
			}
			before = value
		}
		r.Columns[c] = column[:used]
	}
	return r
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
	for i := range runs {
		if to, err = runs[i].appendTo(to); err != nil {
			return nil, &blockError{err}
		}
	}
	return to, nil
}

func (r *run) appendTo(to []row) ([]row, error) {
	width := passColumns + metricColumns*len(r.Metrics)
	if len(r.Columns) != 1+width {
		return nil, fmt.Errorf("a run has %d columns, want %d", len(r.Columns), 1+width)
	}
	n := len(r.Columns[0])
	values := make([]int64, n*width)
	first := len(to)
	for i := range n {
		to = append(to, row{metrics: r.Metrics, values: values[i*width : (i+1)*width]})
	}
	for c, column := range r.Columns {
		if len(column) > n {
			return nil, fmt.Errorf("a column has %d values, want at most %d", len(column), n)
		}
		value := int64(0)
		for i := range n {
			if i < len(column) {
				value += column[i]
			}
			if c == 0 {
				to[first+i].time = value
			} else {
				to[first+i].values[c-1] = value
			}
		}
	}
	return to, nil
}

// inOrder sorts rows by time. If several rows have the same time, it keeps the first one.
func inOrder(rows []row) []row {
	slices.SortStableFunc(rows, func(a, b row) int { return int(max(-1, min(1, a.time-b.time))) })
	return slices.CompactFunc(rows, func(a, b row) bool { return a.time == b.time })
}

// thinned returns the last row in each interval of the given length in milliseconds.
func thinned(rows []row, step int64) []row {
	var thin []row
	for i := range rows {
		if i == len(rows)-1 || rows[i].time/step != rows[i+1].time/step {
			thin = append(thin, rows[i])
		}
	}
	return thin
}
