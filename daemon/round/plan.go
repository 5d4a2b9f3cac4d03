package round

import (
	"cmp"
	"slices"
	"time"

	"github.com/hpad/hpad/daemon/adapters"
	"github.com/hpad/hpad/sources"
	"github.com/hpad/hpad/targets"
)

// autoscalerSet contains the autoscalers of a round, their definitions, and the plan of their
// reads. It is immutable, and all rounds of the same autoscalers share it.
type autoscalerSet struct {
	autoscalers []*Autoscaler
	definitions []*Definition
	// scheduled contains the indices of the definitions with schedules.
	scheduled []int
	plan      *plan
}

func newAutoscalerSet(autoscalers []*Autoscaler) *autoscalerSet {
	s := &autoscalerSet{autoscalers: autoscalers, definitions: make([]*Definition, len(autoscalers))}
	for i, a := range autoscalers {
		s.definitions[i] = a.definition.Load()
		if len(s.definitions[i].Schedules) > 0 {
			s.scheduled = append(s.scheduled, i)
		}
	}
	s.plan = newPlan(s.definitions)
	return s
}

// plan contains the reads of a round: one for each fleet and one for each distinct query. Passes
// are identified by their index.
type plan struct {
	passes    []passPlan
	snapshots []plannedRead
	samples   []plannedRead
	queries   []plannedQuery
	batches   []plannedBatch
	// byTimeout maps read timeouts to passes.
	byTimeout map[time.Duration][]int
}

// passPlan contains the indices of one pass's reads.
type passPlan struct {
	snapshot int
	// samples is -1 if no metric needs the fleet's samples.
	samples int
	// queries contains an index for each metric, which is -1 if the metric uses the fleet's
	// samples. It is nil if no metrics are read.
	queries []int
	// reads is the number of distinct reads.
	reads   int32
	timeout time.Duration
}

// plannedRead is a read of a fleet. Its timeout is the longest timeout of its passes.
type plannedRead struct {
	fleet   *adapters.Fleet
	refs    []targets.Ref
	timeout time.Duration
	passes  []int
}

// plannedQuery is a query of a source. Its timeout is the longest timeout of its passes. Its labels
// are all labels that its metrics use.
type plannedQuery struct {
	source  *adapters.Source
	query   sources.Query
	timeout time.Duration
	passes  []int
	batch   int
	// metrics is the number of metrics that use the query's result.
	metrics int32
	// configured reports whether a configured autoscaler uses the query, and not only discovered
	// autoscalers.
	configured bool
	// rank is the lowest index that a metric with this query has in the spec of its autoscaler.
	rank int
}

// plannedBatch contains the queries of one source with the same timeout.
type plannedBatch struct {
	source  *adapters.Source
	timeout time.Duration
	queries []int
	// autoscalers is the number of autoscalers that query the source.
	autoscalers int
}

type queryKey struct {
	source *adapters.Source
	text   string
	maxAge time.Duration
}

func newPlan(definitions []*Definition) *plan {
	p := &plan{passes: make([]passPlan, len(definitions)), byTimeout: map[time.Duration][]int{}}
	snapshots, samples, queries := map[*adapters.Fleet]int{}, map[*adapters.Fleet]int{}, map[queryKey]int{}
	for i, d := range definitions {
		next := passPlan{samples: -1, reads: 1, timeout: readTimeout(d.SyncPeriod)}
		next.snapshot = addRead(&p.snapshots, snapshots, d, next.timeout, i)
		if d.needsSamples() {
			next.samples = addRead(&p.samples, samples, d, next.timeout, i)
			next.reads++
		}
		if d.measures() {
			next.queries = make([]int, len(d.MetricInputs))
			for metric := range d.MetricInputs {
				next.queries[metric] = p.addQuery(queries, d, metric, i, &next)
			}
		}
		p.passes[i] = next
		p.byTimeout[next.timeout] = append(p.byTimeout[next.timeout], i)
	}
	p.makeBatches()
	return p
}

// addRead adds the target of a pass to the read of its fleet and returns the index of the read.
func addRead(reads *[]plannedRead, index map[*adapters.Fleet]int, d *Definition, timeout time.Duration, pass int) int {
	i, ok := index[d.Fleet]
	if !ok {
		i = len(*reads)
		index[d.Fleet] = i
		*reads = append(*reads, plannedRead{fleet: d.Fleet})
	}
	read := &(*reads)[i]
	read.refs = append(read.refs, d.Target)
	read.timeout = max(read.timeout, timeout)
	read.passes = append(read.passes, pass)
	return i
}

// addQuery adds the query of a metric and returns its index, or -1 if the metric uses the fleet's
// samples.
func (p *plan) addQuery(index map[queryKey]int, d *Definition, metric, pass int, next *passPlan) int {
	in := &d.MetricInputs[metric]
	if in.From == nil {
		return -1
	}
	key := queryKey{in.From, in.Query, in.MaxAge}
	i, ok := index[key]
	if !ok {
		i = len(p.queries)
		index[key] = i
		p.queries = append(p.queries, plannedQuery{source: in.From, query: sources.Query{Text: in.Query, MaxAge: in.MaxAge}, rank: metric})
	}
	q := &p.queries[i]
	q.timeout, q.rank = max(q.timeout, next.timeout), min(q.rank, metric)
	q.configured = q.configured || d.Labels == nil
	q.metrics++
	for _, label := range in.Labels {
		if !slices.Contains(q.query.Labels, label) {
			q.query.Labels = append(q.query.Labels, label)
		}
	}
	if n := len(q.passes); n == 0 || q.passes[n-1] != pass { // two metrics can share a query
		q.passes = append(q.passes, pass)
		next.reads++
	}
	return i
}

// makeBatches groups the queries by source and timeout. Queries of configured autoscalers come
// before queries of discovered autoscalers. Queries of first metrics come before queries of second
// metrics, and so on, so that an autoscaler with many queries does not delay the others.
func (p *plan) makeBatches() {
	type batchKey struct {
		source  *adapters.Source
		timeout time.Duration
	}
	index, passes := map[batchKey]int{}, map[*adapters.Source][]int{}
	for i := range p.queries {
		q := &p.queries[i]
		key := batchKey{q.source, q.timeout}
		b, ok := index[key]
		if !ok {
			b = len(p.batches)
			index[key] = b
			p.batches = append(p.batches, plannedBatch{source: q.source, timeout: q.timeout})
		}
		p.batches[b].queries = append(p.batches[b].queries, i)
		q.batch = b
		passes[q.source] = append(passes[q.source], q.passes...)
	}
	for i := range p.batches {
		b := &p.batches[i]
		slices.Sort(passes[b.source])
		b.autoscalers = len(slices.Compact(slices.Clone(passes[b.source])))
		slices.SortStableFunc(b.queries, func(x, y int) int {
			a, b := &p.queries[x], &p.queries[y]
			if a.configured != b.configured {
				return map[bool]int{true: -1, false: 1}[a.configured]
			}
			return cmp.Compare(a.rank, b.rank)
		})
	}
}
