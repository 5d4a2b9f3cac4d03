package gcemig

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/api/compute/v1"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/cloud"
)

// autoscalersKept is how long modes that were read are believed.
const autoscalersKept = time.Minute

// modeOff leaves the group alone.
const modeOff = "OFF"

// autoscalers are the modes of Compute Engine's own autoscalers, by their paths. The zero
// value has none; it is safe for concurrent use.
type autoscalers struct{ cloud.Aside[map[string]string] }

// autoscalerOf returns the path of a group's autoscaler, as
// "zones/ZONE/autoscalers/NAME"; "" when it has none.
func autoscalerOf(group *compute.InstanceGroupManager) string {
	if group == nil || group.Status == nil || group.Status.Autoscaler == "" {
		return ""
	}
	return lastSegments(group.Status.Autoscaler, 4)
}

// refresh reads the modes where they are old, or that of one of paths is not known.
// Without paths it reads nothing.
func (a *autoscalers) refresh(ctx context.Context, s *session, paths []string) {
	if len(paths) == 0 {
		return
	}
	modes, _ := a.Value()
	unknown := func(path string) bool {
		_, ok := modes[path]
		return !ok
	}
	if !errors.Is(a.Failure(), targets.ErrForbidden) && slices.ContainsFunc(paths, unknown) {
		a.Expire()
	}
	a.Refresh(autoscalersKept, func() (map[string]string, error) { return s.autoscalers(ctx) })
}

// hold returns why a group with that autoscaler must not be resized; nil when it
// may be. An unknown mode counts as on.
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
		return &policy.Hold{Reason: NativeAutoscaler, Message: fmt.Sprintf(
			"Compute Engine's autoscaler %q sets the size of group %v (mode %s): set its mode to OFF or delete it", lastSegments(path, 1), t, cmp.Or(mode, "ON"))}
	}
	message := fmt.Sprintf("group %v has the autoscaler %q, whose mode is not known", t, lastSegments(path, 1))
	switch {
	case errors.Is(err, targets.ErrForbidden):
		message += ": grant compute.autoscalers.list, or delete the autoscaler: " + err.Error()
	case err != nil:
		message += ": " + err.Error()
	}
	return &policy.Hold{Reason: NativeAutoscaler, Message: message}
}

// autoscalers reads the modes of all autoscalers of the project, by path.
func (s *session) autoscalers(ctx context.Context) (map[string]string, error) {
	modes := map[string]string{}
	err := s.service.Autoscalers.AggregatedList(s.project).MaxResults(pageSize).ReturnPartialSuccess(true).
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
