package gcemig

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/api/compute/v1"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/cloud"
)

type listing struct {
	groups map[string]*compute.InstanceGroupManager
	// failed maps the zones and regions that could not be read to the reasons.
	failed map[string]string
}

// noneHere is the code of the warning for a zone without groups, which is not an error.
const noneHere = "NO_RESULTS_ON_PAGE"

// list reads all groups of the project, 500 per call. Unreachable zones do not affect other
// zones.
func (s *session) list(ctx context.Context) (*listing, error) {
	l := &listing{groups: map[string]*compute.InstanceGroupManager{}, failed: map[string]string{}}
	err := s.service().InstanceGroupManagers.AggregatedList(s.project).MaxResults(pageSize).ReturnPartialSuccess(true).
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

func (l *listing) find(t *Target) *cloud.Group[*compute.InstanceGroupManager] {
	if group := l.groups[t.Name()]; group != nil {
		return groupOf(group)
	}
	err := cloud.NotFound(cloud.GroupNotFound, "managed instance group", t.Name())
	if why, ok := l.failed[t.scope()]; ok {
		err = fmt.Errorf("%w: %s could not be listed: %s", targets.ErrTransient, t.scope(), why)
	}
	return &cloud.Group[*compute.InstanceGroupManager]{Err: err}
}

func groupOf(g *compute.InstanceGroupManager) *cloud.Group[*compute.InstanceGroupManager] {
	return &cloud.Group[*compute.InstanceGroupManager]{
		Native: g, Size: int32(min(max(g.TargetSize, 0), math.MaxInt32)), Identity: strconv.FormatUint(g.Id, 10),
		Stable: g.Status != nil && g.Status.IsStable, Quiet: !watched(g),
	}
}

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

// rolling reports whether a proactive update is in progress.
func rolling(group *compute.InstanceGroupManager) bool {
	return group.Status != nil && group.Status.VersionTarget != nil && !group.Status.VersionTarget.IsReached &&
		group.UpdatePolicy != nil && group.UpdatePolicy.Type == "PROACTIVE"
}

// autoscalersKept is the time between two readings of the autoscalers' modes.
const autoscalersKept = time.Minute

const modeOff = "OFF"

// autoscalers caches the modes of Compute Engine's autoscalers by path. It is safe for concurrent
// use; the zero value is empty.
type autoscalers struct {
	cloud.CachedDetail[map[string]string]
}

// autoscalerOf returns the path of a group's autoscaler, such as "zones/ZONE/autoscalers/NAME";
// "" without such a value.
func autoscalerOf(group *compute.InstanceGroupManager) string {
	if group == nil || group.Status == nil || group.Status.Autoscaler == "" {
		return ""
	}
	return lastSegments(group.Status.Autoscaler, 4)
}

// refresh reads the modes if they are old, or if the mode of one of the paths is unknown. It does
// nothing if there are no paths.
func (a *autoscalers) refresh(ctx context.Context, s *session, paths []string) {
	if len(paths) == 0 {
		return
	}
	modes, _ := a.Value()
	unknown := func(path string) bool {
		_, ok := modes[path]
		return !ok
	}
	interval := autoscalersKept
	if !errors.Is(a.Failure(), targets.ErrForbidden) && slices.ContainsFunc(paths, unknown) {
		interval = 0
	}
	a.Refresh(interval, func() (map[string]string, error) { return s.autoscalers(ctx) })
}

// hold returns the reason why a group with an autoscaler must not be resized, or nil. An unknown
// mode is treated as on.
func (a *autoscalers) hold(t *Target, path string) *policy.Hold {
	if path == "" {
		return nil
	}
	modes, _ := a.Value()
	err := a.Failure()
	if mode, ok := modes[path]; ok && err == nil {
		if mode == modeOff {
			return nil
		}
		return &policy.Hold{Reason: cloud.NativeAutoscaler, Message: fmt.Sprintf(
			"Compute Engine's autoscaler %q sets the size of group %v (mode %s): set its mode to OFF or delete it", lastSegments(path, 1), t, cmp.Or(mode, "ON"))}
	}
	message := fmt.Sprintf("group %v has the autoscaler %q, with an unknown mode", t, lastSegments(path, 1))
	switch {
	case errors.Is(err, targets.ErrForbidden):
		message += ": grant compute.autoscalers.list, or delete the autoscaler: " + err.Error()
	case err != nil:
		message += ": " + err.Error()
	}
	return &policy.Hold{Reason: cloud.NativeAutoscaler, Message: message}
}

func (s *session) autoscalers(ctx context.Context) (map[string]string, error) {
	modes := map[string]string{}
	err := s.service().Autoscalers.AggregatedList(s.project).MaxResults(pageSize).ReturnPartialSuccess(true).
		Pages(reading(ctx, "autoscalers.aggregatedList"), func(page *compute.AutoscalerAggregatedList) error {
			for scope, found := range page.Items {
				for _, autoscaler := range found.Autoscalers {
					mode := ""
					if autoscaler.AutoscalingPolicy != nil {
						mode = autoscaler.AutoscalingPolicy.Mode
					}
					modes[scope+"/autoscalers/"+autoscaler.Name] = mode
				}
			}
			return nil
		})
	if err != nil {
		return nil, fmt.Errorf("list autoscalers of project %q: %w", s.project, sent(err))
	}
	return modes, nil
}
