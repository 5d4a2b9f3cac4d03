package sources

import (
	"bytes"
	"context"
	"fmt"
	"hash/maphash"
	"math"
	"time"
)

// What a series counts in memory, in bytes: with the hash of its labels and a copy of
// its place while the result is read, and afterwards. A label has a string of its own.
const (
	seriesReadBytes = 160
	seriesKeptBytes = 72
	labelBytes      = 48
)

const (
	// maxLabelBytes bounds the labels of one series.
	maxLabelBytes = 1 << 20
	// maxWholeBytes bounds the labels that are kept although the query does not name
	// them.
	maxWholeBytes = 64 << 10
)

// Collector makes a Vector, series by series, within a Budget. It keeps the labels
// that the query names; of series that an error may have to show it keeps all: the
// first ones, and those whose value is no plain number, up to 64 KiB. Series differ by
// a hash of 128 bits over all of their labels, with seeds of the Collector's own.
type Collector struct {
	ctx    context.Context
	budget *Budget
	claim  *Claim
	names  [][]byte
	query  Query

	series []Series
	// kept is how much the series hold, held that with what reading takes besides.
	kept, held int64
	// whole is how much labels hold that the query does not name.
	whole int64

	seeds [2]maphash.Seed
	seen  map[[2]uint64]struct{}
	// hash and labels are of the series that is being read; text has its labels one
	// after the other, each name and value with a separator between.
	hash   [2]uint64
	labels []span
	text   []byte
}

// span is a label in a Collector's text: from start, its separator at middle.
type span struct{ start, middle, end int }

// labelSeparator stands between the name and the value of a label; it occurs in no
// valid UTF-8.
const labelSeparator = '\xff'

// Collect begins the Vector of a query, waiting for a share until ctx ends, as Add
// does for more. A Collector whose Vector is not used is to be Released.
func (b *Budget) Collect(ctx context.Context, query Query) (*Collector, error) {
	claim, err := b.Claim(ctx)
	if err != nil {
		return nil, err
	}
	c := &Collector{
		ctx: ctx, budget: b, claim: claim, query: query,
		series: []Series{},
		seeds:  [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()},
		seen:   map[[2]uint64]struct{}{},
	}
	for _, name := range query.Labels {
		c.names = append(c.names, []byte(name))
	}
	return c, nil
}

// Label adds a label to the next series, unless it is empty. Labels may come in any
// order; no name may come twice.
func (c *Collector) Label(name, value []byte) error {
	if len(value) == 0 {
		return nil
	}
	label := span{start: len(c.text), middle: len(c.text) + len(name)}
	c.text = append(c.text, name...)
	c.text = append(c.text, labelSeparator)
	c.text = append(c.text, value...)
	label.end = len(c.text)
	if label.end > maxLabelBytes {
		return fmt.Errorf("answer has a series with more than %d MiB of labels", maxLabelBytes>>20)
	}
	for i, seed := range c.seeds { // the sum does not depend on the order
		c.hash[i] += maphash.Bytes(seed, c.text[label.start:])
	}
	c.labels = append(c.labels, label)
	return nil
}

// Named returns all labels of the series that is being read.
func (c *Collector) Named() map[string]string {
	labels := make(map[string]string, len(c.labels))
	for _, label := range c.labels {
		labels[string(c.name(label))] = string(c.value(label))
	}
	return labels
}

func (c *Collector) name(label span) []byte  { return c.text[label.start:label.middle] }
func (c *Collector) value(label span) []byte { return c.text[label.middle+1 : label.end] }

// Add ends a series with its value and time. It is an error when there is a series
// with the same labels already, when the Vector takes more than one may, and when ctx
// ends before there is as much.
func (c *Collector) Add(value float64, at time.Time) error {
	if _, double := c.seen[c.hash]; double {
		return fmt.Errorf("answer has two series with the same labels %s", LabelsOf(c.Named()))
	}
	labels, size := c.keep(value)
	c.kept += size + seriesKeptBytes
	c.held += size + seriesReadBytes
	if err := c.fit(); err != nil {
		return err
	}
	c.seen[c.hash] = struct{}{}
	c.series = append(c.series, Series{Labels: labels, Value: value, At: at})
	c.hash, c.labels, c.text = [2]uint64{}, c.labels[:0], c.text[:0]
	return nil
}

// keep returns the labels to keep of the series, and their size.
func (c *Collector) keep(value float64) (labels Labels, size int64) {
	if c.whole < maxWholeBytes && (len(c.series) < wholeSeries || value < 0 || math.IsNaN(value) || math.IsInf(value, 0) || value > math.MaxInt64/1000) {
		for _, label := range c.labels {
			labels = append(labels, Label{string(c.name(label)), string(c.value(label))})
			size += labelBytes + int64(label.end-label.start)
		}
		c.whole += size
		return labels, size
	}
	for i, name := range c.names {
		for _, label := range c.labels {
			if bytes.Equal(c.name(label), name) {
				if labels == nil {
					labels = make(Labels, 0, len(c.names))
				}
				labels = append(labels, Label{c.query.Labels[i], string(c.value(label))})
				size += labelBytes + int64(label.end-label.middle)
			}
		}
	}
	return labels, size
}

// wholeSeries is of how many series at the beginning all labels are kept.
const wholeSeries = 100

// fit holds the claim to what is kept.
func (c *Collector) fit() error {
	switch {
	case c.claim == nil || c.held <= c.claim.Room():
		return nil
	case c.claim.enlarged:
		return c.budget.tooLarge(len(c.series) + 1)
	case c.held > c.budget.largest():
		return c.budget.tooLarge(len(c.series) + 1)
	}
	return c.claim.Enlarge(c.ctx, c.budget.largest())
}

// Vector returns the Vector, whose Release gives back what it holds of the Budget.
func (c *Collector) Vector(warnings []string) Vector {
	if c.claim != nil {
		c.claim.shrink(c.kept)
	}
	return Vector{Series: c.series, Warnings: warnings, claim: c.claim}
}

// Release gives back what the Collector holds of the Budget.
func (c *Collector) Release() { c.claim.Release() }
