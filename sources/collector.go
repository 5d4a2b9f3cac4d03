package sources

import (
	"bytes"
	"context"
	"fmt"
	"hash/maphash"
	"math"
	"slices"
	"time"
)

// The memory of a series in bytes. seriesReadBytes applies while the result is read, and
// includes the hash of the labels and a copy during growth. seriesKeptBytes applies afterwards, and
// includes an index by label values. labelBytes is added for each label, which has its own string.
const (
	seriesReadBytes = 160
	seriesKeptBytes = 120
	labelBytes      = 48
)

const (
	// maxLabelBytes limits the labels of one series.
	maxLabelBytes = 1 << 20
	// maxWholeBytes limits the stored labels that the query does not need.
	maxWholeBytes = 64 << 10
)

// Collector builds a Vector within a Budget. It stores the labels that the query needs. For
// error messages, it also stores all labels of the first series and of series with special
// values, up to 64 KiB. It compares series by a 128-bit hash of all labels.
type Collector struct {
	ctx    context.Context
	budget *Budget
	claim  *Claim
	names  [][]byte
	query  Query

	series []Series
	// kept is the memory of the series. held also includes the memory for reading.
	kept, held int64
	// whole is the memory of the labels that the query does not need.
	whole int64

	seeds [2]maphash.Seed
	seen  map[[2]uint64]struct{}
	// hash and labels belong to the current series. text contains its labels, with a separator
	// after each name.
	hash   [2]uint64
	labels []span
	text   []byte
}

// span is the position of a label in a Collector's text. middle is the position of its
// separator.
type span struct{ start, middle, end int }

// labelSeparator separates the name and the value of a label. It does not occur in valid UTF-8.
const labelSeparator = '\xff'

// Collect starts collecting the Vector of a query. It waits until a share is free or ctx ends,
// and Add waits for more memory. If the Vector is not used, the Collector must be released.
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

// maxGrow limits the series for which Grow allocates memory, because the budget counts only added ones.
const maxGrow = 16 << 10

// Grow allocates memory for n series before the first Add. More or fewer can be added.
func (c *Collector) Grow(n int) {
	n = min(n, maxGrow)
	c.series, c.seen = slices.Grow(c.series, n), make(map[[2]uint64]struct{}, n)
}

// Label adds a label to the current series unless its value is empty. The order is irrelevant,
// but names must be unique.
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
		return fmt.Errorf("result contains a series with more than %d MiB of labels", maxLabelBytes>>20)
	}
	for i, seed := range c.seeds { // a sum, because it must not depend on the order
		c.hash[i] += maphash.Bytes(seed, c.text[label.start:])
	}
	c.labels = append(c.labels, label)
	return nil
}

// Named returns all labels of the current series.
func (c *Collector) Named() map[string]string {
	labels := make(map[string]string, len(c.labels))
	for _, label := range c.labels {
		labels[string(c.name(label))] = string(c.value(label))
	}
	return labels
}

func (c *Collector) name(label span) []byte  { return c.text[label.start:label.middle] }
func (c *Collector) value(label span) []byte { return c.text[label.middle+1 : label.end] }

// Add completes a series with its value and time. It returns an error if the series is a
// duplicate, if the Vector exceeds its limit, or if ctx ends while Add waits for memory.
func (c *Collector) Add(value float64, at time.Time) error {
	if _, double := c.seen[c.hash]; double {
		return fmt.Errorf("result contains two series with the same labels %s", LabelsOf(c.Named()))
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

// keep returns the labels to store, and their size.
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

// wholeSeries is the number of series at the beginning for which all labels are stored.
const wholeSeries = 100

// fit enlarges the claim if necessary.
func (c *Collector) fit() error {
	switch {
	case c.claim == nil || c.held <= c.claim.room():
		return nil
	case c.claim.enlarged:
		return c.budget.tooLarge(len(c.series) + 1)
	case c.held > c.budget.largest():
		return c.budget.tooLarge(len(c.series) + 1)
	}
	return c.claim.Enlarge(c.ctx, c.budget.largest())
}

// Vector returns the Vector. Its Release releases its part of the Budget.
func (c *Collector) Vector(warnings []string) Vector {
	if c.claim != nil {
		c.claim.shrink(c.kept)
	}
	return Vector{Series: c.series, Warnings: warnings, claim: c.claim}
}

// Release releases the Collector's part of the Budget.
func (c *Collector) Release() { c.claim.Release() }
