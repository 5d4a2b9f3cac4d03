package nomad

import (
	"cmp"
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

	"github.com/hpad/hpad/guard"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/sampling"
)

// statsWindow is the window of Nomad's cpu rates: the default telemetry.collection_interval of
// clients.
const statsWindow = time.Second

type sampledAlloc struct {
	// Instance points into its target's reading, and must not be modified. The sample
	// contains the usage of the instance's tasks, or of all tasks of the allocation if it has none.
	*policy.Instance
	node string
	at   scope
	// mhz is the node's MHz per core.
	mhz float64
}

// sampler reads the resource usage of allocations at an interval while Samples is called. It
// stores the newest sample of each allocation.
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

// Samples returns the cpu and memory usage of the tasks of each running allocation, and starts
// sampling if necessary.
func (f *Fleet) Samples(ctx context.Context, refs []targets.Ref) (map[targets.Ref]targets.Samples, error) {
	return targets.CallUnlessClosed(ctx, &f.base, "sample", func(context.Context) (map[targets.Ref]targets.Samples, error) {
		return f.sampler.Samples(refs)
	})
}

// sample returns the newest sample of an allocation unless it is too old.
func (s *sampler) sample(_ sampledAlloc, newest targets.InstanceSample) (*targets.InstanceSample, error) {
	if time.Since(newest.At) > s.Validity() {
		return nil, nil
	}
	return &newest, nil
}

// pass samples allocations once. After a node has not responded, it skips the node's other
// allocations. It returns an error only if it got no samples.
func (s *sampler) pass(ctx context.Context, due []sampledAlloc) error {
	session, err := s.connection.session()
	if err != nil {
		return fmt.Errorf("%w: %w", targets.ErrForbidden, err)
	}
	errs, sampled := make([]error, len(due)), make([]bool, len(due))
	var silent sync.Map // nodes
	group, rejected := guard.WithContext(ctx)
	group.SetLimit(s.config.fetching())
	for i, alloc := range due {
		group.Go(func() error {
			if _, skip := silent.Load(alloc.node); skip || rejected.Err() != nil {
				return nil
			}
			usage, err := s.usage(ctx, session, alloc)
			if err == nil {
				errs[i] = s.take(alloc, usage, time.Now())
				sampled[i] = errs[i] == nil
				return nil
			}
			errs[i] = err
			switch {
			case errors.Is(err, targets.ErrThrottled), errors.Is(err, targets.ErrForbidden):
				return err // skip all other allocations
			case !errors.Is(err, targets.ErrTargetNotFound): // a missing allocation does not make its node silent
				silent.Store(alloc.node, true)
			}
			return nil
		})
	}
	_ = group.Wait() // errors are stored per allocation
	if slices.Contains(sampled, true) || ctx.Err() != nil {
		return nil
	}
	return cmp.Or(errs...)
}

func (s *sampler) usage(ctx context.Context, session *session, alloc sampledAlloc) (*api.AllocResourceUsage, error) {
	ctx, cancel := context.WithTimeout(ctx, s.config.ResourceInterval)
	defer cancel()
	usage := new(api.AllocResourceUsage)
	if err := readError(session.get(ctx, alloc.at, "/v1/client/allocation/"+url.PathEscape(alloc.ID)+"/stats", nil, "", usage)); err != nil {
		return nil, fmt.Errorf("read the stats of allocation %s: %w", shortID(alloc.ID), err)
	}
	return usage, nil
}

func (s *sampler) take(alloc sampledAlloc, usage *api.AllocResourceUsage, now time.Time) error {
	sample, ok := sampleOf(alloc, usage, s.config.Memory, now, s.Validity())
	if !ok {
		return fmt.Errorf("%w: allocation %s: %s", targets.ErrTransient, shortID(alloc.ID), unmeasured(usage, now))
	}
	s.Learn(alloc.ID, func(newest *targets.InstanceSample) { *newest = sample })
	return nil
}

// unmeasured returns the reason for a missing sample. Clients of newer Nomad versions measure
// only what they publish (hashicorp/nomad issue 25870).
func unmeasured(usage *api.AllocResourceUsage, now time.Time) string {
	if usage.Timestamp <= 0 {
		return `its client reports no measurements; set telemetry { publish_allocation_metrics = true } in the client's configuration`
	}
	return fmt.Sprintf("its client's last measurement is %v old, or the client's clock is wrong", now.Sub(time.Unix(0, usage.Timestamp)).Round(time.Second))
}

// sampleOf converts the usage of an allocation to a sample; it returns false if the usage is too
// old. A task that was not measured recently has no usage in the sample, so the usage of the
// allocation is unknown (R26).
func sampleOf(alloc sampledAlloc, usage *api.AllocResourceUsage, memory string, now time.Time, validity time.Duration) (targets.InstanceSample, bool) {
	at := time.Unix(0, usage.Timestamp)
	if usage.Timestamp <= 0 || now.Sub(at) > validity {
		return targets.InstanceSample{}, false
	}
	// At is relative to now, so that the monotonic clock measures the sample's age.
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

func amounts(usage *api.ResourceUsage, memory string, mhz float64) []policy.Amount {
	var used []policy.Amount
	if cpu := usage.CpuStats; cpu != nil && cpu.TotalTicks >= 0 && !math.IsNaN(cpu.TotalTicks) && !math.IsInf(cpu.TotalTicks, 0) {
		used = append(used, policy.Amount{Resource: "cpu", Milli: milliCores(cpu.TotalTicks, mhz)})
	}
	if usage.MemoryStats != nil {
		// Some drivers report invalid values for resources that they do not measure.
		const highest = math.MaxInt64 / 1000
		if bytes, ok := usedBytes(usage.MemoryStats, memory); ok && bytes <= highest {
			used = append(used, policy.Amount{Resource: "memory", Milli: int64(bytes) * 1000})
		}
	}
	return used
}

func usedBytes(stats *api.MemoryStats, memory string) (uint64, bool) {
	measured := func(what string) bool { return slices.Contains(stats.Measured, what) }
	usage := measured("Usage") && stats.Usage > 0
	switch {
	case memory == memoryRSS || !usage:
		return stats.RSS, measured("RSS")
	case memory == memoryUsage:
		return stats.Usage, true
	}
	// Usage without the page cache, but at least the resident memory.
	without := stats.Usage - min(stats.Usage, stats.Cache)
	if measured("RSS") {
		without = max(without, min(stats.RSS, stats.Usage))
	}
	return without, true
}

// fallbackMHz is the assumed speed of a core if the token may not read nodes. Utilization is
// still exact, but amounts are then in GHz.
const fallbackMHz = 1000

// coreSpeeds stores the MHz per core of each node. It is safe for concurrent use. The value of a
// node never changes, because requests and usage must be divided by the same value.
type coreSpeeds struct{ mhz sync.Map }

type nodeStub struct {
	ID            string
	NodeResources *struct {
		Cpu struct {
			CpuShares     int64
			TotalCpuCores uint16
		}
	}
}

func (s *coreSpeeds) unknown(node string) bool {
	_, ok := s.mhz.Load(node)
	return !ok
}

// learn reads the nodes of a region. It is not an error if the token may not read nodes.
func (s *coreSpeeds) learn(ctx context.Context, session *session, region string) error {
	var stubs []nodeStub
	_, err := readPages(ctx, session, scope{region: region}, list{path: "/v1/nodes", params: map[string]string{"resources": "true"}, size: jobsPage}, func(node *nodeStub) { stubs = append(stubs, *node) })
	if err != nil && !errors.Is(readError(err), targets.ErrForbidden) {
		return fmt.Errorf("read the speed of nodes: %w", err)
	}
	for _, node := range stubs {
		if node.NodeResources == nil {
			continue
		}
		if cpu := node.NodeResources.Cpu; cpu.TotalCpuCores > 0 && cpu.CpuShares > 0 {
			s.mhz.LoadOrStore(node.ID, float64(cpu.CpuShares)/float64(cpu.TotalCpuCores))
		}
	}
	return nil
}

// of returns the MHz per core of a node.
func (s *coreSpeeds) of(node string) float64 {
	value, _ := s.mhz.LoadOrStore(node, float64(fallbackMHz))
	mhz, _ := value.(float64) // always a float64
	return mhz
}

// cores converts reserved MHz to cores (R2).
func cores(shares int64, mhz float64) policy.Amount {
	const nanoPerMilli = 1_000_000
	nano := int64(math.Round(float64(shares) / mhz * 1000 * nanoPerMilli))
	milli := (nano + nanoPerMilli - 1) / nanoPerMilli
	return policy.Amount{Resource: "cpu", Milli: milli, RoundedUpNano: int32(milli*nanoPerMilli - nano)}
}

func milliCores(ticks, mhz float64) int64 { return int64(math.Round(ticks / mhz * 1000)) }
