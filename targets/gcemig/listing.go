package gcemig

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/api/compute/v1"

	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/cloud"
)

// listing is what was read of all groups of a project.
type listing struct {
	// groups are by the names of targets.
	groups map[string]*compute.InstanceGroupManager
	// failed are the zones and regions that could not be read, and why.
	failed map[string]string
}

// noneHere is what a list says of a zone that has nothing: no failure.
const noneHere = "NO_RESULTS_ON_PAGE"

// list reads all groups of the project, 500 a call. Zones that the platform cannot
// reach now fail alone.
func (s *session) list(ctx context.Context) (*listing, error) {
	l := &listing{groups: map[string]*compute.InstanceGroupManager{}, failed: map[string]string{}}
	err := s.service.InstanceGroupManagers.AggregatedList(s.project).MaxResults(pageSize).ReturnPartialSuccess(true).
		Pages(reading(ctx, "instanceGroupManagers.aggregatedList"), func(page *compute.InstanceGroupManagerAggregatedList) error {
			l.add(page)
			return nil
		})
	if err != nil {
		return nil, fmt.Errorf("list groups of project %q: %w", s.project, sent(err))
	}
	return l, nil
}

func (l *listing) add(page *compute.InstanceGroupManagerAggregatedList) {
	for scope, found := range page.Items {
		if found.Warning != nil && found.Warning.Code != noneHere {
			l.failed[scope] = found.Warning.Code + ": " + found.Warning.Message
		}
		for _, group := range found.InstanceGroupManagers {
			l.groups[scope+"/"+group.Name] = group
		}
	}
	for _, scope := range page.Unreachables {
		scope = lastSegments(scope, 2)
		if l.failed[scope] == "" {
			l.failed[scope] = "the platform cannot reach it"
		}
	}
}

// find returns a target's group.
func (l *listing) find(t *Target) *cloud.Group[*compute.InstanceGroupManager] {
	if group := l.groups[t.Name()]; group != nil {
		return groupOf(group)
	}
	err := cloud.NotFound(GroupNotFound, "managed instance group", t.Name())
	if why, ok := l.failed[t.scope()]; ok {
		err = fmt.Errorf("%w: %s could not be listed: %s", targets.ErrTransient, t.scope(), why)
	}
	return &cloud.Group[*compute.InstanceGroupManager]{Err: err}
}

// groupOf returns a group for the skeleton.
func groupOf(g *compute.InstanceGroupManager) *cloud.Group[*compute.InstanceGroupManager] {
	return &cloud.Group[*compute.InstanceGroupManager]{
		Native: g, Size: int32(min(max(g.TargetSize, 0), math.MaxInt32)), Identity: strconv.FormatUint(g.Id, 10),
		Stable: g.Status != nil && g.Status.IsStable, Quiet: !watched(g),
	}
}

// lastSegments returns the last n parts of an address or path.
func lastSegments(path string, n int) string {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	return strings.Join(parts[max(0, len(parts)-n):], "/")
}

// watched reports whether a health check watches a group's instances.
func watched(group *compute.InstanceGroupManager) bool {
	return slices.ContainsFunc(group.AutoHealingPolicies, func(p *compute.InstanceGroupManagerAutoHealingPolicy) bool {
		return p != nil && p.HealthCheck != ""
	})
}

// rolling reports whether the group replaces or changes its instances on its own.
func rolling(group *compute.InstanceGroupManager) bool {
	return group.Status != nil && group.Status.VersionTarget != nil && !group.Status.VersionTarget.IsReached &&
		group.UpdatePolicy != nil && group.UpdatePolicy.Type == "PROACTIVE"
}
