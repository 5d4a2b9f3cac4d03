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

// Order is the order in which instances are taken when a count goes down. The
// zero Order is Platform.
type Order string

// The orders. An order decides only between instances of the same removal class, so
// unready instances go before ready instances (targets.CompareForRemoval).
const (
	// Platform lets the platform choose.
	Platform Order = "platform"
	// Oldest takes those that started first.
	Oldest Order = "oldest"
	// Newest takes those that started last.
	Newest Order = "newest"
	// UnhealthyFirst takes the oldest unready instance, or if all are ready, the instance
	// that became ready last.
	UnhealthyFirst Order = "unhealthy-first"
	// LeastCPU takes those that use the least cpu; an unknown use counts as most.
	LeastCPU Order = "least-cpu"
	// EmptyNomadNodes takes those whose Nomad node runs the fewest allocations; an
	// unknown number counts as most.
	EmptyNomadNodes Order = "empty-nomad-nodes"
)

// Orders returns all orders, as a configuration writes them.
func Orders() []Order {
	return []Order{Platform, Oldest, Newest, UnhealthyFirst, LeastCPU, EmptyNomadNodes}
}

// Named reports whether instances are taken by name, in an order of hpad's own.
func (o Order) Named() bool { return o != "" && o != Platform }

// Facts are what some orders go by, by the instances' ids. What is missing is
// unknown.
type Facts struct {
	// CPUMilli is the use of cpu in thousandths of a core.
	CPUMilli map[string]int64
	// Allocations is how many allocations of Nomad an instance's node runs, without
	// those of system jobs.
	Allocations map[string]int
}

// Victim is an instance that a scale-down takes.
type Victim struct {
	// ID is the instance's, as in targets.Reading.
	ID string `json:"id"`
	// Name is the instance's name where it differs from its id.
	Name string `json:"name,omitempty"`
	// Reason is why it is this one, in a few words.
	Reason string `json:"reason"`
}

// Pick returns whom a scale-down by n would take, the first one first: fewer than
// n where the others are protected or on their way already. It takes no instance
// that is Deleting, Protected or Succeeded. The same arguments always have the
// same result. An order that is not Named is an error.
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

// candidate is an instance that may be taken, the lowest rank first.
type candidate struct {
	Victim
	rank     int64
	instance *policy.Instance
}

// unknownRank is the rank of instances in an unknown state.
const unknownRank = math.MaxInt64

// age puts the older instance first. One whose start is not known has not started
// yet, which makes it the newest.
func age(instance *policy.Instance) int64 {
	if instance.StartedAt.IsZero() {
		return math.MaxInt64
	}
	return instance.StartedAt.UnixNano()
}

// rank returns an instance's place in its removal class, before the time of its
// readiness, and the reason for taking it.
func (o Order) rank(instance *policy.Instance, facts Facts) (rank int64, reason string) {
	switch o {
	case UnhealthyFirst:
		reason = "it became ready last"
		if targets.RemovalClassOf(instance) != targets.RemoveReady {
			rank = age(instance)
		}
	case LeastCPU:
		rank, reason = unknownRank, "its use of cpu is not known"
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

// classReason returns why an instance goes before ready instances; "" if it is ready.
func classReason(instance *policy.Instance) string {
	switch targets.RemovalClassOf(instance) {
	case targets.RemoveFailed:
		return "it failed"
	case targets.RemoveUnknown:
		return "its state is not known"
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
		return unknownRank, "the allocations of its Nomad node are not known"
	case count == 0:
		return 0, "its Nomad node is empty"
	case count == 1:
		return 1, "its Nomad node runs 1 allocation"
	default:
		return int64(count), fmt.Sprintf("its Nomad node runs %d allocations", count)
	}
}

// Victims returns whom a scale-down by n would take of a target, by a reading of
// this fleet's, the first one first: for explanations and dry runs. It is empty
// where the platform chooses.
func (f *Fleet) Victims(ctx context.Context, ref targets.Ref, reading targets.Reading, n int32) ([]Victim, error) {
	var options Options
	f.locked(func(tr *tracker) { options = tr.options[ref] })
	if !options.Victims.Named() || n <= 0 {
		return nil, nil
	}
	n -= max(0, reading.SpecReplicas-existing(reading)) // which costs nobody
	return f.pick(ctx, ref, options, reading, n)
}

// pick returns the victims of a scale-down by n.
func (f *Fleet) pick(ctx context.Context, ref targets.Ref, options Options, reading targets.Reading, n int32) ([]Victim, error) {
	facts, err := f.facts(ctx, ref, options, reading)
	if err != nil {
		return nil, fmt.Errorf("choose instances of %s by %s: %w", ref, options.Victims, err)
	}
	return options.Victims.Pick(reading, int(n), facts)
}

// facts returns what the order goes by.
func (f *Fleet) facts(ctx context.Context, ref targets.Ref, options Options, reading targets.Reading) (facts Facts, err error) {
	switch options.Victims {
	case LeastCPU:
		if options.CPU != nil {
			facts.CPUMilli, err = options.CPU(ctx, ref)
			return facts, err
		}
		sampling, ok := f.inner.(targets.Sampler)
		if !ok {
			return facts, fmt.Errorf("%w: nobody knows the use of cpu; give the autoscaler a cpu metric, or choose another order", targets.ErrUnscalable)
		}
		samples, err := sampling.Samples(ctx, []targets.Ref{ref})
		return Facts{CPUMilli: cpuOf(samples[ref])}, err
	case EmptyNomadNodes:
		counter, ok := options.Drainer.(Counter)
		if !ok {
			return facts, fmt.Errorf("%w: nobody knows the allocations; name the Nomad fleet, or choose another order", targets.ErrUnscalable)
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

// cpuOf adds up what each instance's tasks use.
func cpuOf(samples targets.Samples) map[string]int64 {
	use := map[string]int64{}
	for _, sample := range samples.Instances {
		for _, task := range sample.Tasks {
			for _, amount := range task.Usage {
				if amount.Resource == "cpu" {
					use[sample.ID] += amount.Milli
				}
			}
		}
	}
	return use
}

// instanceOf returns what a Drainer gets of the i-th instance of a reading.
func instanceOf(ref targets.Ref, reading targets.Reading, i int) Instance {
	instance := Instance{Target: ref, ID: reading.Instances[i].ID}
	if reading.Locations != nil {
		at := reading.Locations.At(i)
		instance.Name, instance.Node, instance.Addresses, instance.Labels = at.Name, at.Node, at.Addresses, at.Labels
	}
	return instance
}
