package systemd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hpad/hpad/guard"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
)

// The properties that the fleet reads.
const (
	invocationID  = "InvocationID"
	cpuUsage      = "CPUUsageNSec"
	memoryCurrent = "MemoryCurrent"
)

// startLimitHit is the result of a service that was started too often.
const startLimitHit = "start-limit-hit"

// detailsAge is the maximum age of cached properties that can change while an instance runs,
// such as its limits.
const detailsAge = 5 * time.Minute

// restartAge is the run time after which a restarted instance is no longer considered failing.
const restartAge = time.Minute

// maxCalls limits the concurrent calls to a manager, which handles only one call at a time.
const maxCalls = 8

// details contains the properties of an instance that a list does not contain.
type details struct {
	// activation is the invocation ID.
	activation string
	state      unitState
	// started is the time when the activation started, and active the time when it completed.
	started, active time.Time
	// result describes the end of its last run, such as "exit-code". restarts is the number of
	// restarts by the unit's own Restart=.
	result   string
	restarts uint32
	// exit describes how its last main process ended, such as "exit status 3"; "" if it is unknown.
	exit string
	// gaveUp reports whether the manager has stopped restarting the instance because it ended too
	// often.
	gaveUp bool
	// limited reports whether the manager rejected a start because there were too many starts.
	limited bool
	// group is its control group, or "" if it is unknown.
	group string
	// requests contains the CPU and memory limits in the instance's unit file, which are used as
	// requests if the configuration has none.
	requests []policy.Amount
	// limits come from the instance's unit file; MemoryHigh= is not a limit.
	limits []policy.Amount
	read   time.Time
	// The following fields are set only with restart_on_change. stale reports whether a newer
	// definition than the manager's was found during this activation, and outdated whether the
	// instance must be replaced. definitionErr is the error of the comparison.
	stale, outdated bool
	definitionErr   error
}

// detailCache caches the details of all instances. It is safe for concurrent use.
type detailCache struct {
	manager manager

	mu    sync.Mutex
	units map[string]details
}

func newDetailCache(m manager) *detailCache {
	return &detailCache{manager: m, units: map[string]details{}}
}

// update reads the details of new and changed units, and deletes the other units of the
// templates. It returns an error if the manager does not respond.
func (p *detailCache) update(ctx context.Context, templates map[template]Template, units []unit) error {
	p.forget(templates, units)
	group, ctx := guard.WithContext(ctx)
	group.SetLimit(maxCalls)
	for _, u := range units {
		if u.state != absent {
			group.Go(func() error { return p.updateUnit(ctx, u, templates[templateOf(u.Name)].RestartOnChange) })
		}
	}
	return group.Wait()
}

func (p *detailCache) forget(templates map[template]Template, units []unit) {
	listed := make(map[string]bool, len(units))
	for _, u := range units {
		listed[u.Name] = true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for name := range p.units {
		if _, ours := templates[templateOf(name)]; ours && !listed[name] {
			delete(p.units, name)
		}
	}
}

// updateUnit updates the details of one unit, including its definition if compare is set. It is not
// an error if the unit no longer exists.
func (p *detailCache) updateUnit(ctx context.Context, u unit, compare bool) error {
	known, ok := p.get(u.Name)
	if ok && !compare && known.state == u.state && time.Since(known.read) < detailsAge && !u.restarting() {
		id, err := p.manager.property(ctx, u.Name, invocationID)
		if err != nil || known.activation == text(id) {
			return ignoreGone(err)
		}
	}
	properties, err := p.manager.properties(ctx, u.Name)
	if err != nil {
		return ignoreGone(err)
	}
	found := parseDetails(properties, time.Now())
	found.state = u.state
	if found.restarts > 0 { // the manager deletes it when the next process starts
		found.exit = cmp.Or(found.exit, known.exit)
	}
	if compare {
		found.compareDefinition(properties, known, p.manager.changed)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.units[u.Name] = found
	return nil
}

// ignoreGone returns nil for the errors of units that no longer exist.
func ignoreGone(err error) error {
	if errors.Is(err, errLost) || errors.Is(err, targets.ErrForbidden) {
		return err
	}
	return nil
}

func (p *detailCache) get(name string) (details, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	d, ok := p.units[name]
	return d, ok
}

// parseDetails parses the properties of a service that were read at the time now.
func parseDetails(properties map[string]any, now time.Time) details {
	d := details{
		read:       now,
		activation: text(properties[invocationID]),
		started:    timestamp(properties["InactiveExitTimestamp"]),
		active:     timestamp(properties["ActiveEnterTimestamp"]),
		result:     text(properties["Result"]),
		group:      text(properties["ControlGroup"]),
	}
	d.restarts, _ = properties["NRestarts"].(uint32)
	d.exit = exitText(properties)
	d.gaveUp = gaveUp(d, properties)
	d.limited = d.result == startLimitHit && d.restarts == 0
	if quota, ok := number(properties["CPUQuotaPerSecUSec"]); ok && quota <= math.MaxInt64/1000 {
		d.limits = append(d.limits, policy.Amount{Resource: "cpu", Milli: int64((quota + 999) / 1000), RoundedUpNano: int32((1000 - quota%1000) % 1000 * 1000)})
	}
	memory := func(property string) []policy.Amount {
		if bytes, ok := number(properties[property]); ok && bytes <= math.MaxInt64/1000 {
			return []policy.Amount{{Resource: "memory", Milli: int64(bytes) * 1000}}
		}
		return nil
	}
	high, most := memory("MemoryHigh"), memory("MemoryMax")
	d.requests = slices.Concat(d.limits, high)
	if high == nil {
		d.requests = append(d.requests, most...)
	}
	d.limits = append(d.limits, most...)
	return d
}

// exitText describes how the main process of a service ended. It returns "" while the process runs.
func exitText(properties map[string]any) string {
	code, _ := properties["ExecMainCode"].(int32)
	status, _ := properties["ExecMainStatus"].(int32)
	switch code {
	case cldExited:
		return fmt.Sprintf("exit status %d", status)
	case cldKilled, cldDumped:
		return "signal " + cmp.Or(unix.SignalName(syscall.Signal(status)), fmt.Sprint(status))
	}
	return ""
}

// The values of ExecMainCode, which are those of si_code in waitid(2).
const (
	cldExited = 1
	cldKilled = 2
	cldDumped = 3
)

// restartedRecently reports whether the unit waits for its own Restart=, or was restarted within
// restartAge and may exit again.
func (d details) restartedRecently(u unit, now time.Time) bool {
	return u.restarting() || d.restarts > 0 && u.state.alive() && now.Sub(d.started) < restartAge
}

// gaveUp reports whether the manager no longer restarts a failed service. If an earlier run had
// already failed, systemd keeps the result of that run, and only the number of restarts shows that
// it gave up.
func gaveUp(d details, properties map[string]any) bool {
	burst, _ := properties["StartLimitBurst"].(uint32)
	restart := text(properties["Restart"])
	return d.result == startLimitHit || restart != "" && restart != "no" && burst > 0 && d.restarts >= burst
}

// number returns a number property, or false for the maximum value, which means unset.
func number(value any) (uint64, bool) {
	n, ok := value.(uint64)
	return n, ok && n != math.MaxUint64
}

// timestamp parses microseconds since the epoch. 0 is converted to the zero time.
func timestamp(value any) time.Time {
	micro, ok := number(value)
	if !ok || micro == 0 || micro > math.MaxInt64/1000 {
		return time.Time{}
	}
	return time.UnixMicro(int64(micro))
}

// text returns a string as is, and bytes as hexadecimal digits.
func text(value any) string {
	switch v := value.(type) {
	case string:
		return v
	case []byte:
		return fmt.Sprintf("%x", v)
	}
	return ""
}

// requestsOf returns the configured requests. For resources without one, it returns the limit
// in the unit file.
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
