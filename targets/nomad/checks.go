package nomad

import (
	"context"
	"net/url"
	"sync"

	"github.com/hashicorp/nomad/api"
	"golang.org/x/sync/errgroup"

	"github.com/hpad/hpad/policy"
)

// checks reads the service checks of the running allocations whose groups have any,
// where the fleet is configured to: one call for each allocation. An allocation
// without an entry has none to pass.
func (s *snapshot) checks(ctx context.Context) map[string]policy.Readiness {
	if s.fleet.config.Readiness != ReadinessChecks {
		return nil
	}
	answer := map[string]policy.Readiness{}
	var mu sync.Mutex
	var group errgroup.Group
	group.SetLimit(s.fleet.config.fetching())
	for _, v := range s.scopes {
		for _, unbuilt := range v.unbuilt() {
			spec := unbuilt.job.spec
			if spec == nil {
				continue
			}
			if g := spec.group(unbuilt.key.group); g == nil || !g.checked {
				continue
			}
			for _, alloc := range unbuilt.set.allocs {
				if alloc.phase() != policy.PhaseRunning || alloc.stopping() || alloc.canary() {
					continue
				}
				group.Go(func() error {
					readiness := s.session.checked(ctx, v.at, alloc.ID)
					mu.Lock()
					defer mu.Unlock()
					answer[alloc.ID] = readiness
					return nil
				})
			}
		}
	}
	_ = group.Wait() // each allocation has its own result
	return answer
}

// checked returns the readiness by all checks of an allocation.
func (s *session) checked(ctx context.Context, at scope, alloc string) policy.Readiness {
	var statuses api.AllocCheckStatuses
	if err := s.get(ctx, at, "/v1/client/allocation/"+url.PathEscape(alloc)+"/checks", nil, "", &statuses); err != nil {
		return policy.ReadinessUnknown // its node is silent
	}
	if len(statuses) == 0 {
		return policy.ReadinessFalse // none has run yet
	}
	for _, status := range statuses {
		if status.Status != "success" {
			return policy.ReadinessFalse
		}
	}
	return policy.ReadinessTrue
}
