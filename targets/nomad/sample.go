package nomad

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/nomad/api"
	"golang.org/x/sync/errgroup"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/sampling"
)

// statsWindow is the span that Nomad's cpu rates cover: its clients' default
// telemetry.collection_interval.
const statsWindow = time.Second

// sampledAlloc is an allocation whose use can be read.
type sampledAlloc struct {
	// instance is it in its reading: its tasks are those whose use counts, none means
	// all. It is not modified.
	*policy.Instance
	node string
	at   scope
	// mhz is the speed of a core of its node.
	mhz float64
}

// sampler reads the resource use of allocations, by their ids, every interval while
// Samples is called. What is known of each is its newest sample.
type sampler struct {
	*sampling.Members[string, sampledAlloc, targets.InstanceSample]
	config     *Config
	connection *connection
}

func newSampler(config *Config, connection *connection) *sampler {
	s := &sampler{config: config, connection: connection}
	s.Members = sampling.NewMembers(config.ResourceInterval, sampling.Kind[string, sampledAlloc, targets.InstanceSample]{
		Key: func(alloc sampledAlloc) string { return alloc.ID }, Pass: s.pass, Sample: s.sample,
	})
	return s
}

// Samples returns cpu and memory of each running allocation and its tasks, and
// begins to sample when it was not called for a while.
func (f *Fleet) Samples(ctx context.Context, refs []targets.Ref) (map[targets.Ref]targets.Samples, error) {
	return targets.Ask(ctx, &f.base, "sample", func(context.Context) (map[targets.Ref]targets.Samples, error) {
		return f.sampler.Samples(refs)
	})
}

// sample returns the newest sample of an allocation where that is not too old.
func (s *sampler) sample(_ sampledAlloc, newest targets.InstanceSample) (*targets.InstanceSample, error) {
	if time.Since(newest.At) > s.Validity() {
		return nil, nil
	}
	return &newest, nil
}

// pass samples allocations once. An error means that there is no sample at all.
func (s *sampler) pass(ctx context.Context, due []sampledAlloc) error {
	p := &samplePass{sampler: s, silent: map[string]bool{}}
	session, err := s.connection.session()
	if err != nil {
		p.fail(fmt.Errorf("%w: %w", targets.ErrForbidden, err))
	} else {
		var group errgroup.Group
		group.SetLimit(s.config.fetching())
		for _, alloc := range due {
			group.Go(func() error {
				p.sample(ctx, session, alloc)
				return nil
			})
		}
		_ = group.Wait() // what failed is noted
	}
	if p.taken == 0 && ctx.Err() == nil {
		return p.err
	}
	return nil
}

// samplePass is one pass under way.
type samplePass struct {
	sampler *sampler

	mu sync.Mutex
	// silent are the nodes without a response in this pass, whose other allocations are
	// skipped; ended means that all others are.
	silent map[string]bool
	ended  bool
	taken  int
	err    error
}

func (p *samplePass) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err == nil {
		p.err = err
	}
}

// skipped reports whether an allocation is not to be sampled in this pass.
func (p *samplePass) skipped(ctx context.Context, alloc sampledAlloc) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ended || p.silent[alloc.node] || ctx.Err() != nil
}

// sample reads the use of one allocation.
func (p *samplePass) sample(ctx context.Context, session *session, alloc sampledAlloc) {
	if p.skipped(ctx, alloc) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, p.sampler.config.ResourceInterval)
	defer cancel()
	usage := new(api.AllocResourceUsage)
	err := readError(session.get(ctx, alloc.at, "/v1/client/allocation/"+url.PathEscape(alloc.ID)+"/stats", nil, "", usage))
	now := time.Now()
	if err == nil {
		p.take(alloc, usage, now)
		return
	}
	p.fail(fmt.Errorf("read the stats of allocation %s: %w", shortID(alloc.ID), err))
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case errors.Is(err, targets.ErrThrottled), errors.Is(err, targets.ErrForbidden):
		p.ended = true
	case !errors.Is(err, targets.ErrTargetNotFound): // a missing allocation is gone, its node is not
		p.silent[alloc.node] = true
	}
}

// take keeps an allocation's use.
func (p *samplePass) take(alloc sampledAlloc, usage *api.AllocResourceUsage, now time.Time) {
	s := p.sampler
	sample, ok := sampleOf(alloc, usage, s.config.Memory, now, s.Validity())
	if !ok {
		p.fail(fmt.Errorf("%w: allocation %s: %s", targets.ErrTransient, shortID(alloc.ID), unmeasured(usage, now)))
		return
	}
	s.Learn(alloc.ID, func(newest *targets.InstanceSample) { *newest = sample })
	p.mu.Lock()
	p.taken++
	p.mu.Unlock()
}

// unmeasured returns why there is no sample. Clients of newer versions of Nomad measure
// only what they publish (their issue 25870).
func unmeasured(usage *api.AllocResourceUsage, now time.Time) string {
	if usage.Timestamp <= 0 {
		return `its client has measured nothing; it does so only with telemetry { publish_allocation_metrics = true } in its configuration`
	}
	return fmt.Sprintf("its client measured it last %v ago, or its clock is not right", now.Sub(time.Unix(0, usage.Timestamp)).Round(time.Second))
}

// sampleOf makes a sample of an allocation's use, and returns false where that is too
// old. A task that was not measured, or not lately, has no usage, and leaves the
// allocation without that resource (R26).
func sampleOf(alloc sampledAlloc, usage *api.AllocResourceUsage, memory string, now time.Time, validity time.Duration) (targets.InstanceSample, bool) {
	at := time.Unix(0, usage.Timestamp)
	if usage.Timestamp <= 0 || now.Sub(at) > validity {
		return targets.InstanceSample{}, false
	}
	// By now, so that its age is measured by the monotonic clock.
	sample := targets.InstanceSample{ID: alloc.ID, At: now.Add(min(at.Sub(now), 0)), Window: statsWindow}
	names := make([]string, len(alloc.Tasks))
	for i, task := range alloc.Tasks {
		names[i] = task.Name
	}
	if len(names) == 0 {
		names = slices.Sorted(maps.Keys(usage.Tasks))
	}
	for _, name := range names {
		task := policy.TaskUsage{Task: name}
		measured := usage.Tasks[name]
		if measured != nil && measured.ResourceUsage != nil && at.Sub(time.Unix(0, measured.Timestamp)) <= validity {
			task.Usage = amounts(measured.ResourceUsage, memory, alloc.mhz)
		}
		sample.Tasks = append(sample.Tasks, task)
	}
	return sample, len(sample.Tasks) > 0
}

// amounts returns what a task used of cpu and memory, as far as it was measured.
func amounts(usage *api.ResourceUsage, memory string, mhz float64) []policy.Amount {
	var used []policy.Amount
	if cpu := usage.CpuStats; cpu != nil && cpu.TotalTicks >= 0 && !math.IsNaN(cpu.TotalTicks) && !math.IsInf(cpu.TotalTicks, 0) {
		used = append(used, policy.Amount{Resource: "cpu", Milli: milliCores(cpu.TotalTicks, mhz)})
	}
	if usage.MemoryStats != nil {
		// A number this large is none: some drivers leave garbage in what they do
		// not measure.
		const highest = math.MaxInt64 / 1000
		if bytes, ok := usedBytes(usage.MemoryStats, memory); ok && bytes <= highest {
			used = append(used, policy.Amount{Resource: "memory", Milli: int64(bytes) * 1000})
		}
	}
	return used
}

// usedBytes returns what counts as used memory.
func usedBytes(stats *api.MemoryStats, memory string) (uint64, bool) {
	measured := func(what string) bool { return slices.Contains(stats.Measured, what) }
	usage := measured("Usage") && stats.Usage > 0
	switch {
	case memory == MemoryRSS || !usage:
		return stats.RSS, measured("RSS")
	case memory == MemoryUsage:
		return stats.Usage, true
	}
	// Usage without the page cache, but not less than what is resident.
	without := stats.Usage - min(stats.Usage, stats.Cache)
	if measured("RSS") {
		without = max(without, min(stats.RSS, stats.Usage))
	}
	return without, true
}

// fallbackMHz is what a core of a node counts for whose speed the token may not
// read: utilization stays exact, amounts of cores are then GHz.
const fallbackMHz = 1000

// speeds are the MHz per core of nodes. They are safe for concurrent use.
type speeds struct {
	mu  sync.Mutex
	mhz map[string]float64
}

func newSpeeds() *speeds { return &speeds{mhz: map[string]float64{}} }

// nodeStub is a node in a list.
type nodeStub struct {
	ID            string
	NodeResources *struct {
		Cpu struct {
			CpuShares     int64
			TotalCpuCores uint16
		}
	}
}

// learn reads the nodes of a region when one of those given is unknown. A token that
// may not read nodes is no error.
func (s *speeds) learn(ctx context.Context, session *session, region string, nodes map[string]bool) error {
	if s.knows(nodes) {
		return nil
	}
	var stubs []nodeStub
	_, err := readPages(ctx, session, scope{region: region}, list{path: "/v1/nodes", params: map[string]string{"resources": "true"}, size: jobsPage}, func(node *nodeStub) { stubs = append(stubs, *node) })
	if err != nil && !errors.Is(readError(err), targets.ErrForbidden) {
		return fmt.Errorf("read the speed of nodes: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, node := range stubs {
		if _, known := s.mhz[node.ID]; known || node.NodeResources == nil {
			continue
		}
		if cpu := node.NodeResources.Cpu; cpu.TotalCpuCores > 0 && cpu.CpuShares > 0 {
			s.mhz[node.ID] = float64(cpu.CpuShares) / float64(cpu.TotalCpuCores)
		}
	}
	return nil
}

func (s *speeds) knows(nodes map[string]bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id := range nodes {
		if _, ok := s.mhz[id]; !ok {
			return false
		}
	}
	return true
}

// of returns the MHz of a core of a node, which never changes: what an allocation
// reserves and what it uses must be divided by the same.
func (s *speeds) of(node string) float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	mhz, ok := s.mhz[node]
	if !ok {
		mhz = fallbackMHz
		s.mhz[node] = mhz
	}
	return mhz
}

// cores turns reserved MHz into an amount of cores of so many MHz (R2).
func cores(shares int64, mhz float64) policy.Amount {
	const nanoPerMilli = 1_000_000
	nano := int64(math.Round(float64(shares) / mhz * 1000 * nanoPerMilli))
	milli := (nano + nanoPerMilli - 1) / nanoPerMilli
	return policy.Amount{Resource: "cpu", Milli: milli, RoundedUpNano: int32(milli*nanoPerMilli - nano)}
}

// milliCores turns used MHz into thousandths of a core of so many MHz.
func milliCores(ticks, mhz float64) int64 { return int64(math.Round(ticks / mhz * 1000)) }
