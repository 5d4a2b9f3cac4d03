package systemd

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
)

// Properties of units and services that the fleet reads.
const (
	invocationID  = "InvocationID"
	loadState     = "LoadState"
	unitID        = "Id"
	cpuUsage      = "CPUUsageNSec"
	memoryCurrent = "MemoryCurrent"
)

// startLimitHit is the result of a service that was started too often.
const startLimitHit = "start-limit-hit"

// detailsAge is how long properties are believed that may change while an instance runs,
// as its limits.
const detailsAge = 5 * time.Minute

// atOnce bounds the calls to a manager that are under way: it answers one by one.
const atOnce = 8

// details are what a list does not say of an instance. They stay as they are from
// one activation to the next.
type details struct {
	// activation is the id of one activation.
	activation string
	state      unitState
	// started is when the activation began, active when it was done.
	started, active time.Time
	// left is when it began to stop, startWithin and stopWithin are how long it may take
	// to start and to stop, 0 for any time.
	left                    time.Time
	startWithin, stopWithin time.Duration
	// stale reports that its unit file changed since the manager read it.
	stale bool
	// result is how it ended, as "exit-code", restarts how often its own Restart= has
	// started it again.
	result   string
	restarts uint32
	// gaveUp reports that the manager does not start it again because it ended too
	// often.
	gaveUp bool
	// limited reports that the manager did not even begin a start because there were too
	// many before, allowed is when it does again.
	limited bool
	allowed time.Time
	// group is its control group, "" for none.
	group string
	// requests are those its unit file states as limits.
	requests []policy.Amount
	read     time.Time
}

// detailCache are the remembered details of all instances.
type detailCache struct {
	manager manager

	mu    sync.Mutex
	units map[string]details
}

func newDetailCache(m manager) *detailCache {
	return &detailCache{manager: m, units: map[string]details{}}
}

// learn reads what is not known yet of units, and forgets all others of their templates.
// An error means that the manager does not answer.
func (p *detailCache) learn(ctx context.Context, templates map[template]bool, units []unit) error {
	p.forget(templates, units)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for _, u := range units {
		if u.state != absent {
			group.Go(func() error { return p.learnUnit(ctx, u) })
		}
	}
	return group.Wait()
}

func (p *detailCache) forget(templates map[template]bool, units []unit) {
	listed := make(map[string]bool, len(units))
	for _, u := range units {
		listed[u.Name] = true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for name := range p.units {
		if templates[templateOf(name)] && !listed[name] {
			delete(p.units, name)
		}
	}
}

// learnUnit reads one unit. One that is gone meanwhile is no error.
func (p *detailCache) learnUnit(ctx context.Context, u unit) error {
	known, ok := p.of(u.Name)
	id, err := p.manager.property(ctx, u.Name, invocationID)
	if err != nil {
		return ignoreGone(err)
	}
	activation := text(id)
	if ok && known.activation == activation && known.state == u.state && time.Since(known.read) < detailsAge && !u.restarting() && !known.stale {
		return nil
	}
	properties, err := p.manager.properties(ctx, u.Name)
	if err != nil {
		return ignoreGone(err)
	}
	found := parseDetails(properties, time.Now())
	found.state = u.state
	p.mu.Lock()
	defer p.mu.Unlock()
	p.units[u.Name] = found
	return nil
}

// ignoreGone returns nil for a unit that is not there any more.
func ignoreGone(err error) error {
	if errors.Is(err, errLost) || errors.Is(err, targets.ErrForbidden) {
		return err
	}
	return nil
}

func (p *detailCache) of(name string) (details, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	d, ok := p.units[name]
	return d, ok
}

// parseDetails reads the properties of a service, as of now.
func parseDetails(properties map[string]any, now time.Time) details {
	d := details{
		read:       now,
		activation: text(properties[invocationID]),
		started:    instant(properties["InactiveExitTimestamp"]),
		active:     instant(properties["ActiveEnterTimestamp"]),
		left:       instant(properties["ActiveExitTimestamp"]),
		result:     text(properties["Result"]),
		group:      text(properties["ControlGroup"]),
	}
	d.startWithin, d.stopWithin = span(properties["TimeoutStartUSec"]), span(properties["TimeoutStopUSec"])
	d.restarts, _ = properties["NRestarts"].(uint32)
	d.stale, _ = properties["NeedDaemonReload"].(bool)
	d.gaveUp = gaveUp(d, properties)
	if d.limited = d.result == startLimitHit && d.restarts == 0; d.limited {
		interval, _ := properties["StartLimitIntervalUSec"].(uint64)
		// From now, so that the interval is measured by the monotonic clock.
		changed := now.Add(min(instant(properties["StateChangeTimestamp"]).Sub(now), 0))
		d.allowed = changed.Add(time.Duration(min(interval, math.MaxInt64/1000)) * time.Microsecond)
	}
	if quota, ok := set(properties["CPUQuotaPerSecUSec"]); ok && quota <= math.MaxInt64/1000 {
		d.requests = append(d.requests, policy.Amount{Resource: "cpu", Milli: int64((quota + 999) / 1000), RoundedUpNano: int32((1000 - quota%1000) % 1000 * 1000)})
	}
	for _, limit := range []string{"MemoryHigh", "MemoryMax"} {
		if bytes, ok := set(properties[limit]); ok && bytes <= math.MaxInt64/1000 {
			d.requests = append(d.requests, policy.Amount{Resource: "memory", Milli: int64(bytes) * 1000})
			break
		}
	}
	return d
}

// gaveUp reports whether the manager gave a failed service up. Where one has failed
// before, that stays its result, and only the number of restarts shows it.
func gaveUp(d details, properties map[string]any) bool {
	burst, _ := properties["StartLimitBurst"].(uint32)
	restart := text(properties["Restart"])
	return d.result == startLimitHit || restart != "" && restart != "no" && burst > 0 && d.restarts >= burst
}

// set returns a number and whether it is one: the highest stands for none.
func set(value any) (uint64, bool) {
	number, ok := value.(uint64)
	return number, ok && number != math.MaxUint64
}

// instant reads microseconds since the epoch; 0 is no time.
func instant(value any) time.Time {
	micro, ok := set(value)
	if !ok || micro == 0 || micro > math.MaxInt64/1000 {
		return time.Time{}
	}
	return time.UnixMicro(int64(micro))
}

// text returns a text, or the hexadecimal digits of bytes.
func text(value any) string {
	switch v := value.(type) {
	case string:
		return v
	case []byte:
		return fmt.Sprintf("%x", v)
	}
	return ""
}

// requestsOf returns what an instance reserves: what is configured, else what its unit
// file states.
func requestsOf(config Template, d details) []policy.Amount {
	requests := slices.DeleteFunc(slices.Clone(d.requests), func(a policy.Amount) bool {
		_, configured := config.Requests[a.Resource]
		return configured
	})
	for resource, amount := range config.Requests {
		requests = append(requests, amount.Amount(resource))
	}
	slices.SortFunc(requests, func(a, b policy.Amount) int { return strings.Compare(a.Resource, b.Resource) })
	return requests
}
