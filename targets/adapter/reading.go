package adapter

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/settings/quantity"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/memory"
)

const (
	// maxInstances is the maximum number of instances of a target.
	maxInstances = 10_000
	// maxText is the maximum length of an ID, a name or a version, in bytes.
	maxText = 512
	// maxEntries is the maximum number of addresses, ports, labels, resources or notices in a list.
	maxEntries = 64
	// shards is the number of entries of the fleet's store that contain the records of instances.
	shards = 256
)

// camelCase matches reasons and condition types.
var camelCase = regexp.MustCompile(`^[A-Z][A-Za-z0-9]{0,63}$`)

// record contains the times of an instance that an adapter may omit.
type record struct {
	Started time.Time        `json:"s,omitzero"`
	Ready   policy.Readiness `json:"r"`
	Changed time.Time        `json:"c,omitzero"`
}

// Equal reports whether two records are equal.
func (r record) Equal(other record) bool {
	return r.Started.Equal(other.Started) && r.Ready == other.Ready && r.Changed.Equal(other.Changed)
}

func shardOf(id string) string {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(id)) // never fails
	return fmt.Sprintf("%02x", hash.Sum32()%shards)
}

// UnmarshalJSON stores the text of a target. The target is parsed later, because most targets have not
// changed, and because an invalid target must not affect others.
func (t *Target) UnmarshalJSON(text []byte) error {
	*t = Target{text: bytes.Clone(text)}
	return nil
}

// parsed returns the target, or its error.
func (t *Target) parsed() (*Target, error) {
	if t.text != nil {
		type plain Target
		var p plain
		if err := decode(t.text, &p); err != nil {
			return nil, err
		}
		text := t.text
		t = (*Target)(&p)
		if detail := t.check(); detail != "" {
			return nil, invalid(text, "%s", detail)
		}
	}
	switch {
	case t.invalid != nil:
		return nil, t.invalid
	case t.Error != nil:
		return nil, t.Error.asError(false)
	}
	return t, nil
}

// Unreadable returns a target that could not be read.
func Unreadable(err error) Target {
	return Target{invalid: targets.WithClass(targets.ErrTransient, err)}
}

// check describes the first invalid field of a target; "" if all are valid.
func (t *Target) check() string {
	switch {
	case t.Error != nil:
		if detail := t.Error.check(); detail != "" {
			return "error." + detail
		}
		return ""
	case t.Count == nil:
		return "count is missing"
	case *t.Count < 0:
		return fmt.Sprintf("count is %d", *t.Count)
	case len(t.Version) > maxText:
		return fmt.Sprintf("version has more than %d bytes", maxText)
	case len(t.Instances) > maxInstances:
		return fmt.Sprintf("instances has more than %d elements", maxInstances)
	case len(t.Notices) > maxEntries:
		return fmt.Sprintf("notices has more than %d elements", maxEntries)
	case t.Hold != nil && t.Hold.Reason != "" && !camelCase.MatchString(t.Hold.Reason):
		return fmt.Sprintf("hold.reason: %q is not one CamelCase word", t.Hold.Reason)
	}
	for i, n := range t.Notices {
		if !camelCase.MatchString(string(n.Condition)) || !camelCase.MatchString(n.Reason) {
			return fmt.Sprintf("notices[%d]: the condition %q and the reason %q must each be one CamelCase word", i, n.Condition, n.Reason)
		}
	}
	seen := make(map[string]bool, len(t.Instances))
	for i := range t.Instances {
		if detail := t.Instances[i].check(); detail != "" {
			return fmt.Sprintf("instances[%d].%s", i, detail)
		}
		if id := t.Instances[i].ID; seen[id] {
			return fmt.Sprintf("instances[%d].id: %q occurs twice", i, id)
		}
		seen[t.Instances[i].ID] = true
	}
	return ""
}

func (i *Instance) check() string {
	switch {
	case i.ID == "":
		return "id is missing"
	case max(len(i.ID), len(i.Name), len(i.Node)) > maxText:
		return fmt.Sprintf("id, name or node has more than %d bytes", maxText)
	case i.Phase != "" && !slices.Contains([]Phase{PhasePending, PhaseRunning, PhaseSucceeded, PhaseFailed, PhaseUnknown}, i.Phase):
		return fmt.Sprintf("phase: %q is not a phase", i.Phase)
	case max(len(i.Addresses), len(i.Ports), len(i.Labels), len(i.Requests), len(i.Limits)) > maxEntries:
		return fmt.Sprintf("addresses, ports, labels, requests or limits has more than %d elements", maxEntries)
	}
	for label, port := range i.Ports {
		if port < 1 || port > 65535 || len(label) > maxText {
			return fmt.Sprintf("ports.%s: %d is not a port", label, port)
		}
	}
	for label, value := range i.Labels {
		if len(label) > targets.MaxLabelName || len(value) > targets.MaxLabelValue {
			return fmt.Sprintf("labels: a name has more than %d or a value more than %d bytes", targets.MaxLabelName, targets.MaxLabelValue)
		}
	}
	for _, list := range []struct {
		name    string
		amounts map[string]string
	}{{"requests", i.Requests}, {"limits", i.Limits}} {
		if _, err := amounts(list.amounts); err != nil {
			return list.name + "." + err.Error()
		}
	}
	return ""
}

// amounts converts quantities to amounts, sorted by resource. An error begins with the resource.
func amounts(quantities map[string]string) ([]policy.Amount, error) {
	var found []policy.Amount
	for _, resource := range slices.Sorted(maps.Keys(quantities)) {
		amount, err := quantity.Parse(quantities[resource])
		if err == nil && amount.Milli() < 0 {
			err = fmt.Errorf("%s is negative", amount)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", resource, err)
		}
		found = append(found, amount.Amount(resource))
	}
	return found, nil
}

// Snapshot reads the given targets, in calls of up to 1,000 targets.
func (f *Fleet) Snapshot(ctx context.Context, refs []targets.Ref) (map[targets.Ref]targets.Reading, error) {
	return f.base.Snapshot(ctx, refs, func(ctx context.Context, wanted map[targets.Ref]string) (map[targets.Ref]targets.Reading, error) {
		f.records.Load(time.Now())
		f.mu.Lock()
		maps.DeleteFunc(f.last, func(_ targets.Ref, r received) bool { return time.Since(r.at) >= reuse })
		f.mu.Unlock()
		readings, err := f.read(ctx, wanted)
		if err == nil {
			f.records.Save(time.Now())
		}
		return readings, err
	})
}

func (f *Fleet) read(ctx context.Context, wanted map[targets.Ref]string) (map[targets.Ref]targets.Reading, error) {
	readings := make(map[targets.Ref]targets.Reading, len(wanted))
	for names := range slices.Chunk(slices.Sorted(maps.Values(wanted)), maxTargets) {
		response, err := f.call(ctx, &Request{Call: Snapshot, Targets: names})
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			ref := targets.Ref{Fleet: f.base.Name, Name: name}
			target, found := response.Targets[name]
			if !found {
				target.invalid = fmt.Errorf("%w: the response to %q lacks this target", targets.ErrTransient, Snapshot)
			}
			readings[ref] = f.reading(ref, &target, time.Now())
		}
	}
	return readings, nil
}

// received is a reading with its text, and the time at which it was parsed.
type received struct {
	text    []byte
	reading targets.Reading
	at      time.Time
}

// reuse is the time after which a target is parsed again although its text is the same. It is much
// shorter than the time after which the record of an instance is deleted.
const reuse = 5 * time.Minute

// reading returns the reading of a target. It reuses the last reading if the text is the same.
func (f *Fleet) reading(ref targets.Ref, t *Target, now time.Time) targets.Reading {
	f.mu.Lock()
	defer f.mu.Unlock()
	if last, ok := f.last[ref]; ok && bytes.Equal(last.text, t.text) {
		last.reading.Observed = now
		return last.reading
	}
	delete(f.last, ref)
	parsed, err := t.parsed()
	if err != nil {
		f.sampler.Withdraw(ref)
		return targets.Reading{Err: fmt.Errorf("target %q: %w", ref.Name, err), Observed: now}
	}
	r := f.convert(ref, parsed, now)
	if t.text != nil {
		f.last[ref] = received{t.text, r, now}
	}
	return r
}

func (f *Fleet) convert(ref targets.Ref, t *Target, now time.Time) targets.Reading {
	r := targets.Reading{
		SpecReplicas: *t.Count, StatusReplicas: *t.Count, Min: t.Min, Max: t.Max, Version: versionOf(*t.Count, t.Version), Observed: now,
	}
	if t.Hold != nil {
		r.Hold = &policy.Hold{Reason: cmp.Or(t.Hold.Reason, defaultHold), Message: phraseOr(t.Hold.Message, noCause), Until: t.Hold.Until}
	}
	conditions := map[policy.ConditionType]bool{}
	for _, n := range t.Notices {
		if !conditions[n.Condition] {
			r.Notices = append(r.Notices, policy.Notice{Condition: n.Condition, Reason: n.Reason, Message: targets.Phrase(n.Message)})
		}
		conditions[n.Condition] = true
	}
	if t.Instances == nil {
		f.sampler.Publish(ref, nil)
		return r
	}
	r.StatusReplicas = 0
	locations := make(targets.LocationList, len(t.Instances))
	var running []member
	for n := range t.Instances {
		i := &t.Instances[n]
		instance := f.instance(ref, i, now)
		r.Instances = append(r.Instances, instance)
		locations[n] = i.location(&instance)
		if !instance.Deleting && instance.Phase != policy.PhaseFailed && instance.Phase != policy.PhaseSucceeded {
			r.StatusReplicas++
		}
		if instance.Phase == policy.PhaseRunning {
			running = append(running, member{ref, i.ID})
		}
	}
	r.Locations = locations
	f.sampler.Publish(ref, running)
	return r
}

var phases = map[Phase]policy.Phase{
	"": policy.PhaseRunning, PhaseRunning: policy.PhaseRunning, PhasePending: policy.PhasePending, PhaseSucceeded: policy.PhaseSucceeded, PhaseFailed: policy.PhaseFailed,
}

// instance converts an instance, and adds the times that the adapter omits.
func (f *Fleet) instance(ref targets.Ref, i *Instance, now time.Time) policy.Instance {
	phase := phases[i.Phase]
	ready := policy.ReadinessFalse
	switch {
	case phase == policy.PhaseRunning && (i.Ready == nil || *i.Ready):
		ready = policy.ReadinessTrue
	case phase == policy.PhaseUnknown:
		ready = policy.ReadinessUnknown
	}
	times := f.records.Observe(ref.Name+"\x00"+i.ID, now, func(before record, known bool) record {
		next := record{Ready: ready}
		var restarted bool
		next.Started, restarted = memory.StartTime(i.StartedAt, before.Started, phase == policy.PhaseRunning, now)
		since := i.ReadyChanged
		if since.IsZero() && !known {
			since = next.Started // it is ready since its start, as far as anyone can see
		}
		next.Changed = memory.ReadinessChange(!known || restarted || ready != before.Ready, before.Changed, since, now)
		return next
	})
	instance := policy.Instance{
		ID: i.ID, Name: i.Name, Phase: phase, Readiness: ready, Deleting: i.Terminating,
		StartedAt: times.Started, ReadinessChanged: times.Changed,
		Tasks: []policy.Task{{Name: ref.Name, RequestHint: "let the adapter return requests of the instances"}},
	}
	instance.Tasks[0].Requests, _ = amounts(i.Requests) // check has parsed them
	return instance
}

func (i *Instance) location(instance *policy.Instance) targets.Location {
	l := targets.Location{Name: i.Name, Node: i.Node, Addresses: i.Addresses, Labels: i.Labels, Protected: i.Protected, Failing: i.Phase == PhaseFailed}
	for label, port := range i.Ports {
		l.Ports.Set(label, port)
	}
	l.Limits, _ = amounts(i.Limits) // check has parsed them
	if instance.Readiness != policy.ReadinessTrue {
		l.UnreadyReason = phraseOr(i.UnreadyReason, "the adapter reports that the instance is "+strings.ToLower(instance.Phase.String())+" and not ready")
	}
	return l
}

// noCause replaces an empty message.
const noCause = "the adapter gives no cause"

// phraseOr returns a phrase from a message of the adapter, or other if it is empty.
func phraseOr(message, other string) string { return cmp.Or(targets.Phrase(message), other) }
