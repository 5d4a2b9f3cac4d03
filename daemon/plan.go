package daemon

import (
	"cmp"
	"slices"
	"time"

	"github.com/hpad/hpad/daemon/adapters"
	"github.com/hpad/hpad/sources"
	"github.com/hpad/hpad/targets"
)

// need is what one pass reads, and how long it waits for that.
type need struct {
	fleet  *adapters.Fleet
	target targets.Ref
	// samples reports whether a metric reads the fleet's samples.
	samples bool
	// queries has one entry for each metric, without a source where the fleet's samples
	// feed it.
	queries []queryNeed
	// labeled reports whether the target asks for the autoscaler by its labels.
	labeled bool
	timeout time.Duration
}

// queryNeed is a query that feeds a metric, with the labels that it looks at.
type queryNeed struct {
	source *adapters.Source
	text   string
	labels []string
	maxAge time.Duration
}

// plan is what a round of a given set of passes reads, each fleet once and each
// distinct query once, and who waits for what. It is immutable and used for every
// round of the same set.
type plan struct {
	passes    []passPlan
	snapshots []fleetRead
	samples   []fleetRead
	queries   []queryRead
	// batches are the queries of one source that share a deadline.
	batches []queryBatch
	// patience has the passes by how long they wait: a read may take longer.
	patience map[time.Duration][]int
}

// passPlan is which reads one pass waits for.
type passPlan struct {
	target   targets.Ref
	snapshot int
	// samples is -1 when no metric reads the fleet's samples.
	samples int
	// queries has one index for each metric, -1 where the fleet's samples feed it.
	queries []int
	// inputs is the number of distinct reads to wait for, and timeout how long.
	inputs  int32
	timeout time.Duration
}

// fleetRead is one read of a fleet, and how long the most patient of its passes waits
// for it.
type fleetRead struct {
	fleet   *adapters.Fleet
	refs    []targets.Ref
	timeout time.Duration
	waiting []int
}

// queryRead is one query of a source, with the labels that any of its readers looks
// at.
type queryRead struct {
	source  *adapters.Source
	query   sources.Query
	waiting []int
	// batch is the index of the batch it is in.
	batch int
	// readers is how many metrics read the answer.
	readers int32
	// own reports whether an autoscaler of the configuration reads it, and not only those
	// that targets ask for by their labels.
	own bool
	// rank is which of an autoscaler's metrics reads it, the first of any reader.
	rank int
}

// queryBatch lists queries of one source.
type queryBatch struct {
	source  *adapters.Source
	timeout time.Duration
	queries []int
	// autoscalers is how many ask the source, with these queries or others.
	autoscalers int
}

func newPlan(needs []need) *plan {
	p := &plan{passes: make([]passPlan, 0, len(needs)), patience: map[time.Duration][]int{}}
	type queryKey struct {
		source *adapters.Source
		text   string
		maxAge time.Duration
	}
	snapshots := map[*adapters.Fleet]int{}
	samples := map[*adapters.Fleet]int{}
	queries := map[queryKey]int{}
	timeouts := map[int]time.Duration{}
	for i, n := range needs {
		next := passPlan{target: n.target, samples: -1, inputs: 1, timeout: n.timeout}
		next.snapshot = joinRead(&p.snapshots, snapshots, n.fleet, n.target, n.timeout, i)
		if n.samples {
			next.samples = joinRead(&p.samples, samples, n.fleet, n.target, n.timeout, i)
			next.inputs++
		}
		next.queries = make([]int, len(n.queries))
		for metric, in := range n.queries {
			if in.source == nil {
				next.queries[metric] = -1
				continue
			}
			key := queryKey{in.source, in.text, in.maxAge}
			q, ok := queries[key]
			if !ok {
				q = len(p.queries)
				queries[key] = q
				p.queries = append(p.queries, queryRead{source: in.source, query: sources.Query{Text: in.text, MaxAge: in.maxAge}, rank: metric})
			}
			p.queries[q].join(in.labels, metric, !n.labeled)
			timeouts[q] = max(timeouts[q], n.timeout)
			next.queries[metric] = q
			waiting := &p.queries[q].waiting
			if n := len(*waiting); n == 0 || (*waiting)[n-1] != i { // two metrics may share a query
				*waiting = append(*waiting, i)
				next.inputs++
			}
		}
		p.passes = append(p.passes, next)
		p.patience[n.timeout] = append(p.patience[n.timeout], i)
	}
	p.batch(timeouts, asking(needs))
	return p
}

// join adds a metric that reads the answer by some labels: the number of an
// autoscaler's metric, and whether that is one of the configuration.
func (q *queryRead) join(labels []string, metric int, own bool) {
	q.rank = min(q.rank, metric)
	q.own = q.own || own
	q.readers++
	for _, label := range labels {
		if !slices.Contains(q.query.Labels, label) {
			q.query.Labels = append(q.query.Labels, label)
		}
	}
}

// joinRead adds a target to the read of its fleet and returns the read's index.
func joinRead(reads *[]fleetRead, index map[*adapters.Fleet]int, fleet *adapters.Fleet, ref targets.Ref, timeout time.Duration, pass int) int {
	i, ok := index[fleet]
	if !ok {
		i = len(*reads)
		index[fleet] = i
		*reads = append(*reads, fleetRead{fleet: fleet, timeout: timeout})
	}
	read := &(*reads)[i]
	read.refs = append(read.refs, ref)
	read.timeout = max(read.timeout, timeout)
	read.waiting = append(read.waiting, pass)
	return i
}

// batch groups the queries by source and deadline. Those of the configuration come
// first, so that they do not wait for whatever labels ask, and of both the first ones
// of all autoscalers, so that none waits for all those of one with many.
func (p *plan) batch(timeouts map[int]time.Duration, asking map[*adapters.Source]int) {
	type batchKey struct {
		source  *adapters.Source
		timeout time.Duration
	}
	index := map[batchKey]int{}
	for q := range p.queries {
		key := batchKey{p.queries[q].source, timeouts[q]}
		b, ok := index[key]
		if !ok {
			b = len(p.batches)
			index[key] = b
			p.batches = append(p.batches, queryBatch{source: key.source, timeout: key.timeout})
		}
		p.batches[b].queries = append(p.batches[b].queries, q)
		p.queries[q].batch = b
	}
	for i := range p.batches {
		b := &p.batches[i]
		b.autoscalers = asking[b.source]
		slices.SortStableFunc(b.queries, func(x, y int) int {
			a, b := &p.queries[x], &p.queries[y]
			if a.own != b.own {
				return map[bool]int{true: -1, false: 1}[a.own]
			}
			return cmp.Compare(a.rank, b.rank)
		})
	}
}

// asking counts the passes that ask each source.
func asking(needs []need) map[*adapters.Source]int {
	passes := map[*adapters.Source]int{}
	for _, n := range needs {
		for metric, in := range n.queries {
			counted := slices.ContainsFunc(n.queries[:metric], func(earlier queryNeed) bool { return earlier.source == in.source })
			if in.source != nil && !counted {
				passes[in.source]++
			}
		}
	}
	return passes
}
