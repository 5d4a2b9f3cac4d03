package drain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
)

// Order determines which instances a scale-down removes first. The zero Order is Platform.
type Order string

// The orders. An order decides only between instances of the same removal class, so
// unready instances go before ready instances (targets.CompareForRemoval).
const (
	// Platform lets the platform choose.
	Platform Order = "platform"
	// Oldest removes the instances that started first.
	Oldest Order = "oldest"
	// Newest removes the instances that started last.
	Newest Order = "newest"
	// UnhealthyFirst removes the oldest unready instance. If all are ready, it removes the instance
	// that became ready last.
	UnhealthyFirst Order = "unhealthy-first"
	// LeastCPU removes the instances with the lowest cpu usage; an unknown usage is assumed to be
	// the highest.
	LeastCPU Order = "least-cpu"
	// EmptyNomadNodes removes the instances whose Nomad node has the fewest allocations; an unknown
	// number is assumed to be the highest.
	EmptyNomadNodes Order = "empty-nomad-nodes"
)

// Orders returns all orders.
func Orders() []Order {
	return []Order{Platform, Oldest, Newest, UnhealthyFirst, LeastCPU, EmptyNomadNodes}
}

// Named reports whether hpad chooses the instances.
func (o Order) Named() bool { return o != "" && o != Platform }

// Facts contains the data that some orders need, by instance id. A missing entry means that the
// value is unknown.
type Facts struct {
	// CPUMilli is the cpu usage in thousandths of a core.
	CPUMilli map[string]int64
	// Allocations is the number of Nomad allocations on an instance's node, without system jobs.
	Allocations map[string]int
}

// Victim is an instance that a scale-down removes.
type Victim struct {
	// ID is the instance's id.
	ID string `json:"id"`
	// Name is the instance's name if it differs from the id.
	Name string `json:"name,omitempty"`
	// Reason explains the choice in a few words.
	Reason string `json:"reason"`
}

// Pick returns the instances that a scale-down by n removes, in order. It skips instances that
// are Deleting, Protected or Succeeded, so it may return fewer than n. It is deterministic. It
// returns an error if the order is not Named.
func (o Order) Pick(reading targets.Reading, n int, facts Facts) ([]Victim, error) {
	if !o.Named() {
		return nil, errors.New("the platform chooses the victims")
	}
	var candidates []candidate
	for i := range reading.Instances {
		instance := &reading.Instances[i]
		var location targets.Location
		if reading.Locations != nil {
			location = reading.Locations.At(i)
		}
		if !instance.Deleting && !location.Protected && instance.Phase != policy.PhaseSucceeded {
			rank, reason := o.rank(instance, facts)
			candidates = append(candidates, candidate{Victim{instance.ID, location.Name, reason}, rank, instance})
		}
	}
	slices.SortFunc(candidates, func(a, b candidate) int {
		return cmp.Or(targets.CompareForRemoval(a.instance, b.instance, cmp.Compare(a.rank, b.rank)), cmp.Compare(a.ID, b.ID))
	})
	victims := make([]Victim, max(0, min(n, len(candidates))))
	for i := range victims {
		victims[i] = candidates[i].Victim
	}
	return victims, nil
}

// candidate is an instance that may be removed. Within a removal class, the candidate with the
// lowest rank is removed first.
type candidate struct {
	Victim
	rank     int64
	instance *policy.Instance
}

const unknownRank = math.MaxInt64

// age returns a rank that sorts older instances first. An instance without a start time is
// assumed to be the newest.
func age(instance *policy.Instance) int64 {
	if instance.StartedAt.IsZero() {
		return math.MaxInt64
	}
	return instance.StartedAt.UnixNano()
}

// rank returns the position of an instance in its removal class, and the reason for choosing it.
func (o Order) rank(instance *policy.Instance, facts Facts) (rank int64, reason string) {
	switch o {
	case UnhealthyFirst:
		reason = "it became ready last"
		if targets.RemovalClassOf(instance) != targets.RemoveReady {
			rank = age(instance)
		}
	case LeastCPU:
		rank, reason = unknownRank, "its cpu usage is unknown"
		if milli, ok := facts.CPUMilli[instance.ID]; ok {
			rank, reason = milli, fmt.Sprintf("it uses the least cpu: %dm", milli)
		}
	case EmptyNomadNodes:
		rank, reason = allocationRank(instance.ID, facts)
	case Newest:
		rank, reason = -age(instance), "it is the newest"+startedAt(instance)
	default:
		rank, reason = age(instance), "it is the oldest"+startedAt(instance)
	}
	return rank, cmp.Or(classReason(instance), reason)
}

// classReason returns the reason for removing an instance before ready instances; "" if it is
// ready.
func classReason(instance *policy.Instance) string {
	switch targets.RemovalClassOf(instance) {
	case targets.RemoveFailed:
		return "it failed"
	case targets.RemoveUnknown:
		return "its state is unknown"
	case targets.RemovePending:
		return "it is still starting"
	case targets.RemoveUnready:
		return "it is not ready"
	}
	return ""
}

func startedAt(instance *policy.Instance) string {
	if instance.StartedAt.IsZero() {
		return ""
	}
	return ", started " + instance.StartedAt.UTC().Format(time.RFC3339)
}

func allocationRank(id string, facts Facts) (int64, string) {
	switch count, ok := facts.Allocations[id]; {
	case !ok:
		return unknownRank, "the allocations of its Nomad node are unknown"
	case count == 0:
		return 0, "its Nomad node is empty"
	case count == 1:
		return 1, "its Nomad node runs 1 allocation"
	default:
		return int64(count), fmt.Sprintf("its Nomad node runs %d allocations", count)
	}
}

// Victims returns, in order, the instances that a scale-down by n would remove, for explanations
// and dry runs. The result is empty if the platform chooses the instances.
func (f *Fleet) Victims(ctx context.Context, ref targets.Ref, reading targets.Reading, n int32) ([]Victim, error) {
	var options Options
	f.locked(func(tr *tracker) { options = tr.options[ref] })
	if !options.Victims.Named() || n <= 0 {
		return nil, nil
	}
	n -= max(0, reading.SpecReplicas-existing(reading)) // the count is first lowered by the number of missing instances
	return f.pick(ctx, ref, options, reading, n)
}

func (f *Fleet) pick(ctx context.Context, ref targets.Ref, options Options, reading targets.Reading, n int32) ([]Victim, error) {
	facts, err := f.facts(ctx, ref, options, reading)
	if err != nil {
		return nil, fmt.Errorf("choose instances of %s by %s: %w", ref, options.Victims, err)
	}
	return options.Victims.Pick(reading, int(n), facts)
}

func (f *Fleet) facts(ctx context.Context, ref targets.Ref, options Options, reading targets.Reading) (facts Facts, err error) {
	switch options.Victims {
	case LeastCPU:
		if options.CPU == nil {
			return facts, fmt.Errorf("%w: cpu usage is unknown; add a cpu metric to the autoscaler, or choose another order", targets.ErrUnscalable)
		}
		facts.CPUMilli, err = options.CPU(ctx, ref)
	case EmptyNomadNodes:
		counter, ok := options.Drainer.(Counter)
		if !ok {
			return facts, fmt.Errorf("%w: the number of allocations is unknown; set the Nomad fleet, or choose another order", targets.ErrUnscalable)
		}
		var instances []Instance
		for i := range reading.Instances {
			if !reading.Instances[i].Deleting {
				instances = append(instances, instanceOf(ref, reading, i))
			}
		}
		facts.Allocations, err = counter.Allocations(ctx, instances)
	}
	return facts, err
}

func instanceOf(ref targets.Ref, reading targets.Reading, i int) Instance {
	instance := Instance{Target: ref, ID: reading.Instances[i].ID}
	if reading.Locations != nil {
		at := reading.Locations.At(i)
		instance.Name, instance.Node, instance.Addresses, instance.Labels = at.Name, at.Node, at.Addresses, at.Labels
	}
	return instance
}
