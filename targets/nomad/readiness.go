package nomad

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/hpad/hpad/guard"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/clock"
	"github.com/hpad/hpad/targets/memory"
)

// Each count change updates all allocations of the group in place, which resets their health in
// Nomad. To keep the group from becoming unready after each scaling step, health is sticky: a
// ready allocation stays ready until Nomad marks it unhealthy or its tasks restart. Records are
// stored, so that allocations do not look new after a restart of hpad.

type record struct {
	// Readiness is the last readiness, and Changed the time of its last change.
	Readiness policy.Readiness `json:"r"`
	Changed   time.Time        `json:"c"`
	// Started is the start time of its tasks, or the time when it was first observed running.
	Started time.Time `json:"s"`
}

// Equal reports whether two records are equal.
func (r record) Equal(other record) bool {
	return r.Readiness == other.Readiness && r.Changed.Equal(other.Changed) && r.Started.Equal(other.Started)
}

// Records are stored in shards, by the first digits of the allocation ID.
const (
	shardPrefix = "readiness/"
	shardDigits = 3
)

func newRecords(store targets.Store) *memory.Records[record] {
	return memory.New[record](store, shardPrefix, func(id string) string { return id[:min(shardDigits, len(id))] })
}

// nextRecord returns the new record of an allocation. The checks argument is the result of its
// service checks, or ReadinessTrue if it has none.
func nextRecord(a *alloc, g *group, before record, checks policy.Readiness, now time.Time) record {
	phase := a.phase()
	started, restarted := memory.StartTime(a.started, before.Started, phase == policy.PhaseRunning, now)
	next := record{Started: started}
	ready := before.Readiness == policy.ReadinessTrue && !restarted
	var since time.Time
	switch healthy := a.healthy(); {
	case phase == policy.PhaseUnknown:
		next.Readiness = policy.ReadinessFalse
	case phase != policy.PhaseRunning:
		next.Readiness = policy.ReadinessFalse
		since = time.Unix(0, a.CreateTime)
	case healthy != nil && !*healthy:
		next.Readiness = policy.ReadinessFalse
		since = a.DeploymentStatus.Timestamp
	case healthy != nil:
		next.Readiness = policy.ReadinessTrue
		since = clock.Later(a.DeploymentStatus.Timestamp, next.Started)
	case ready:
		next.Readiness = policy.ReadinessTrue
	case !g.deploys:
		next.Readiness = policy.ReadinessTrue
		since = next.Started
	default:
		next.Readiness = policy.ReadinessFalse
		since = next.Started
	}
	if next.Readiness == policy.ReadinessTrue && checks != policy.ReadinessTrue {
		next.Readiness = checks
		since = now
	}
	next.Changed = memory.ReadinessChange(restarted || next.Readiness != before.Readiness, before.Changed, since, now)
	return next
}

// checks reads the service checks of running allocations if the configuration uses them. It makes
// one call per allocation of a group with checks. An allocation without checks has no entry in
// the result.
func (s *snapshot) checks(ctx context.Context) map[string]checkResult {
	if s.fleet.config.Readiness != readinessChecks {
		return nil
	}
	type check struct {
		at    scope
		alloc string
	}
	var checks []check
	for _, r := range s.scopes {
		for _, t := range r.targets((*targetState).unbuilt) {
			if g := t.job.spec.group(t.Group); g == nil || !g.checked {
				continue
			}
			for _, alloc := range t.set.allocs {
				if alloc.phase() == policy.PhaseRunning && !alloc.stopping() && !alloc.canary() {
					checks = append(checks, check{r.at, alloc.ID})
				}
			}
		}
	}
	results := make([]checkResult, len(checks))
	var group guard.Group
	group.SetLimit(s.fleet.config.fetching())
	for i, c := range checks {
		group.Go(func() error {
			results[i] = s.session.checked(ctx, c.at, c.alloc)
			return nil
		})
	}
	_ = group.Wait() // results are stored per allocation
	readiness := make(map[string]checkResult, len(checks))
	for i, c := range checks {
		readiness[c.alloc] = results[i]
	}
	return readiness
}

// checkResult is the result of the service checks of an allocation. If they do not all succeed, it
// contains the reason and the output of the check that fails.
type checkResult struct {
	readiness      policy.Readiness
	reason, output string
}

func (s *session) checked(ctx context.Context, at scope, alloc string) checkResult {
	var statuses api.AllocCheckStatuses
	if err := s.get(ctx, at, "/v1/client/allocation/"+url.PathEscape(alloc)+"/checks", nil, "", &statuses); err != nil {
		return checkResult{readiness: policy.ReadinessUnknown, reason: "service checks: its node does not respond"}
	}
	if len(statuses) == 0 {
		return checkResult{readiness: policy.ReadinessFalse, reason: "service checks: no result yet"}
	}
	for _, id := range slices.Sorted(maps.Keys(statuses)) {
		if status := statuses[id]; status.Status != "success" {
			text := fmt.Sprintf("service check %q: %s", cmp.Or(status.Check, status.Service), status.Status)
			return checkResult{policy.ReadinessFalse, targets.Phrase(text), targets.Phrase(status.Output)}
		}
	}
	return checkResult{readiness: policy.ReadinessTrue}
}

// unreadyReason returns the reason why an allocation is not ready. The argument checks is the
// reason of its service checks.
func (a *alloc) unreadyReason(instance *policy.Instance, checks string, now time.Time) string {
	text, healthy := "client status "+a.ClientStatus, a.healthy()
	switch {
	case instance.Deleting:
		return "stopping: " + text
	case instance.Phase == policy.PhaseRunning && instance.Readiness == policy.ReadinessTrue:
		return ""
	case a.restarting(now):
		text = "restarting"
	case instance.Phase != policy.PhaseRunning:
	case healthy != nil && !*healthy:
		text = "unhealthy in its deployment"
	case checks != "":
		text = checks
	default:
		text = "its deployment has not reported it as healthy yet"
	}
	if a.faults != "" {
		text += ": " + a.faults
	}
	return targets.Phrase(text)
}
