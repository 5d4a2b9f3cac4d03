package graph

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"slices"

	"github.com/prometheus/prometheus/tsdb/chunkenc"
)

// row is one point as blocks have it: the four counts, then proposal and value of each
// metric; NaN for what is not known.
type row struct {
	time    int64 // in seconds since 1970
	metrics []string
	values  []float64
}

// counts are how many values a row has before those of its metrics.
const counts = 4

var (
	crcTable    = crc32.MakeTable(crc32.Castagnoli)
	errChecksum = errors.New("its checksum is wrong")
	errCut      = errors.New("it is cut off")
	errUnknown  = errors.New("it has a run of an unknown kind")
)

const checksumSize = 4

// Runs of rows with the same metrics begin with what kind they are: those of a minute are
// row after row, others in columns.
const (
	runOfRows byte = iota + 1
	runOfColumns
)

// seal fills in the checksum of the block that begins somewhere.
func seal(to []byte, begin int) []byte {
	binary.BigEndian.PutUint32(to[begin:], crc32.Checksum(to[begin+checksumSize:], crcTable))
	return to
}

// appendPoints appends points of one autoscaler as a block of rows.
func appendPoints(to []byte, points []pending, values []float64) []byte {
	begin := len(to)
	to = append(to, make([]byte, checksumSize)...)
	for len(points) > 0 {
		metrics, n := points[0].Metrics, 1
		for n < len(points) && slices.Equal(points[n].Metrics, metrics) {
			n++
		}
		to = appendMetrics(append(to, runOfRows), metrics)
		to = binary.AppendUvarint(to, uint64(n))
		for i := range points[:n] {
			p := &points[i]
			to = binary.AppendVarint(to, p.time)
			for _, count := range p.counts {
				to = binary.AppendVarint(to, int64(count))
			}
			for _, v := range values[p.values : p.values+2*len(metrics)] {
				to = binary.LittleEndian.AppendUint64(to, math.Float64bits(v))
			}
		}
		points = points[n:]
	}
	return seal(to, begin)
}

// appendBlock appends rows in the order of time as a block of columns.
func appendBlock(to []byte, rows []row) ([]byte, error) {
	begin := len(to)
	to = append(to, make([]byte, checksumSize)...)
	for len(rows) > 0 {
		n := 1
		for n < len(rows) && n < math.MaxUint16 && slices.Equal(rows[n].metrics, rows[0].metrics) {
			n++
		}
		var err error
		if to, err = appendRun(to, rows[:n]); err != nil {
			return nil, err
		}
		rows = rows[n:]
	}
	return seal(to, begin), nil
}

func appendMetrics(to []byte, names []string) []byte {
	to = binary.AppendUvarint(to, uint64(len(names)))
	for _, name := range names {
		to = appendText(to, name)
	}
	return to
}

// appendRun appends rows with the same metrics in columns.
func appendRun(to []byte, rows []row) ([]byte, error) {
	metrics := rows[0].metrics
	to = appendMetrics(append(to, runOfColumns), metrics)
	for column := range counts + 2*len(metrics) {
		chunk := chunkenc.NewXORChunk()
		samples, err := chunk.Appender()
		if err != nil {
			return nil, err
		}
		for i := range rows {
			samples.Append(0, rows[i].time, rows[i].values[column])
		}
		to = appendText(to, chunk.Bytes())
	}
	return to, nil
}

func appendText[T string | []byte](to []byte, text T) []byte {
	return append(binary.AppendUvarint(to, uint64(len(text))), text...)
}

// appendRows appends the rows of a block.
func appendRows(to []row, block []byte) ([]row, error) {
	if len(block) < checksumSize {
		return nil, errCut
	}
	if binary.BigEndian.Uint32(block) != crc32.Checksum(block[checksumSize:], crcTable) {
		return nil, errChecksum
	}
	for rest := block[checksumSize:]; len(rest) > 0; {
		var err error
		if to, rest, err = readRun(to, rest); err != nil {
			return nil, err
		}
	}
	return to, nil
}

func readRun(to []row, block []byte) (rows []row, rest []byte, err error) {
	kind := block[0]
	n, size := binary.Uvarint(block[1:])
	if size <= 0 || n > uint64(len(block)) {
		return nil, nil, errCut
	}
	block = block[1+size:]
	metrics := make([]string, n)
	for i := range metrics {
		var name []byte
		if name, block, err = readText(block); err != nil {
			return nil, nil, err
		}
		metrics[i] = string(name)
	}
	switch kind {
	case runOfRows:
		return readPoints(to, block, metrics)
	case runOfColumns:
		return readColumns(to, block, metrics)
	}
	return nil, nil, fmt.Errorf("%w: %d", errUnknown, kind)
}

// readPoints reads what appendPoints wrote of one run.
func readPoints(to []row, block []byte, metrics []string) (rows []row, rest []byte, err error) {
	n, size := binary.Uvarint(block)
	columns := counts + 2*len(metrics)
	if size <= 0 || n > uint64(len(block)) {
		return nil, nil, errCut
	}
	block = block[size:]
	values := make([]float64, int(n)*columns)
	number := func() int64 {
		v, size := binary.Varint(block)
		if size <= 0 {
			err = errCut
			return 0
		}
		block = block[size:]
		return v
	}
	for i := range int(n) {
		r := row{time: number(), metrics: metrics, values: values[i*columns : (i+1)*columns : (i+1)*columns]}
		for j := range counts {
			r.values[j] = countOf(int32(number()))
		}
		if err != nil || len(block) < 8*(columns-counts) {
			return nil, nil, errCut
		}
		for j := counts; j < columns; j++ {
			r.values[j] = math.Float64frombits(binary.LittleEndian.Uint64(block))
			block = block[8:]
		}
		to = append(to, r)
	}
	return to, block, nil
}

// countOf is a count as rows have it.
func countOf(count int32) float64 {
	if count == Unknown {
		return math.NaN()
	}
	return float64(count)
}

func readColumns(to []row, block []byte, metrics []string) (rows []row, rest []byte, err error) {
	columns := counts + 2*len(metrics)
	begin := len(to)
	for column := range columns {
		var encoded []byte
		if encoded, block, err = readText(block); err != nil {
			return nil, nil, err
		}
		chunk, err := chunkenc.FromData(chunkenc.EncXOR, encoded)
		if err != nil {
			return nil, nil, err
		}
		if column == 0 {
			values := make([]float64, chunk.NumSamples()*columns)
			for i := range chunk.NumSamples() {
				to = append(to, row{metrics: metrics, values: values[i*columns : (i+1)*columns : (i+1)*columns]})
			}
		}
		samples, i := chunk.Iterator(nil), begin
		for ; samples.Next() != chunkenc.ValNone && i < len(to); i++ {
			to[i].time, to[i].values[column] = samples.At()
		}
		if samples.Err() != nil || i != len(to) {
			return nil, nil, fmt.Errorf("column %d: %w", column, errors.Join(errCut, samples.Err()))
		}
	}
	return to, block, nil
}

func readText(block []byte) (text, rest []byte, err error) {
	n, size := binary.Uvarint(block)
	if size <= 0 || n > uint64(len(block)-size) {
		return nil, nil, errCut
	}
	return block[size : size+int(n)], block[size+int(n):], nil
}

// inOrder sorts rows by time and leaves out all but the first of each time.
func inOrder(rows []row) []row {
	slices.SortStableFunc(rows, func(a, b row) int { return int(max(-1, min(1, a.time-b.time))) })
	return slices.CompactFunc(rows, func(a, b row) bool { return a.time == b.time })
}

// thinned returns the last row of each Thin.
func thinned(rows []row) []row {
	const step = int64(Thin / 1e9)
	var thin []row
	for i := range rows {
		if i == len(rows)-1 || rows[i].time/step != rows[i+1].time/step {
			thin = append(thin, rows[i])
		}
	}
	return thin
}

// fit returns rows in order as a block of at most limit bytes, without every second row
// as often as it takes; nil where not one fits.
func fit(rows []row, limit int) ([]byte, error) {
	for len(rows) > 0 {
		block, err := appendBlock(nil, rows)
		if err != nil || len(block) <= limit {
			return block, err
		}
		half := rows[:0:0]
		for i := len(rows) - 1; i >= 0; i -= 2 {
			half = append(half, rows[i])
		}
		slices.Reverse(half)
		if len(rows) == 1 {
			return nil, nil
		}
		rows = half
	}
	return nil, nil
}

// round rounds a value to 12 bits behind its first one.
func round(v float64) float64 {
	const drop = 52 - 12
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return v
	}
	rounded := math.Float64frombits((math.Float64bits(v) + 1<<(drop-1)) &^ (1<<drop - 1))
	if math.IsInf(rounded, 0) {
		return v
	}
	return rounded
}
