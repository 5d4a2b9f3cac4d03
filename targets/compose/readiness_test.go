package compose

import (
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/google/go-cmp/cmp"

	"github.com/hpad/hpad/policy"
)

func TestNextRecord(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	at := func(ago time.Duration) time.Time { return now.Add(-ago) }
	created := at(time.Hour).Unix()
	running := func(health string) *member {
		return &member{Summary: container.Summary{State: container.StateRunning, Created: created}, health: health}
	}
	ready := instanceRecord{Readiness: policy.ReadinessTrue, Changed: at(30 * time.Minute), Started: at(40 * time.Minute)}
	for _, test := range []struct {
		name   string
		member *member
		detail detail
		before instanceRecord
		want   instanceRecord
	}{
		{
			"without a health check, ready since the start",
			running(""),
			detail{started: at(time.Minute)},
			instanceRecord{},
			instanceRecord{Readiness: policy.ReadinessTrue, Changed: at(time.Minute), Started: at(time.Minute)},
		},
		{
			"healthy since the first recorded success",
			running(container.Healthy),
			detail{started: at(time.Hour), healthySince: at(20 * time.Minute)},
			instanceRecord{},
			instanceRecord{Readiness: policy.ReadinessTrue, Changed: at(20 * time.Minute), Started: at(time.Hour)},
		},
		{
			"still ready although the engine's record is shorter",
			running(container.Healthy),
			detail{started: at(40 * time.Minute), healthySince: at(time.Second)},
			ready,
			ready,
		},
		{
			"became unhealthy",
			running(container.Unhealthy),
			detail{started: at(40 * time.Minute)},
			ready,
			instanceRecord{Readiness: policy.ReadinessFalse, Changed: now, Started: at(40 * time.Minute)},
		},
		{
			"starting",
			running(container.Starting),
			detail{started: at(5 * time.Second)},
			instanceRecord{},
			instanceRecord{Readiness: policy.ReadinessFalse, Changed: at(5 * time.Second), Started: at(5 * time.Second)},
		},
		{
			"restarted, ready since the restart",
			running(""),
			detail{started: at(5 * time.Second)},
			ready,
			instanceRecord{Readiness: policy.ReadinessTrue, Changed: at(5 * time.Second), Started: at(5 * time.Second)},
		},
		{
			"paused",
			&member{Summary: container.Summary{State: container.StatePaused, Created: created}},
			detail{started: at(40 * time.Minute)},
			ready,
			instanceRecord{Readiness: policy.ReadinessFalse, Changed: now, Started: at(40 * time.Minute)},
		},
		{
			"exited",
			&member{Summary: container.Summary{State: container.StateExited, Created: created}},
			detail{started: at(40 * time.Minute), finished: at(time.Minute)},
			ready,
			instanceRecord{Readiness: policy.ReadinessFalse, Changed: at(time.Minute), Started: at(40 * time.Minute)},
		},
		{
			"created but not started",
			&member{Summary: container.Summary{State: container.StateCreated, Created: created}},
			detail{},
			instanceRecord{},
			instanceRecord{Readiness: policy.ReadinessFalse, Changed: time.Unix(created, 0)},
		},
		{
			"engine clock ahead",
			running(""),
			detail{started: now.Add(time.Minute)},
			instanceRecord{},
			instanceRecord{Readiness: policy.ReadinessTrue, Changed: now, Started: now.Add(time.Minute)},
		},
		{
			"without a start time, ready since the first reading",
			running(""),
			detail{},
			instanceRecord{},
			instanceRecord{Readiness: policy.ReadinessTrue, Changed: now, Started: now},
		},
	} {
		if got := nextRecord(test.member, &test.detail, test.before, now); !cmp.Equal(got, test.want) {
			t.Errorf("%s: got %+v, want %+v", test.name, got, test.want)
		}
	}
}

// TestUnreadyReason checks that each state that makes a container not ready has a name, and that
// the output of a health check is separate, cut and on one line.
func TestUnreadyReason(t *testing.T) {
	in := func(state, health string) *member {
		return &member{Summary: container.Summary{State: state}, health: health}
	}
	failed := func(output string, code int) failedCheck {
		return failedCheckOf(&container.Health{Log: []*container.HealthcheckResult{{Output: "old", ExitCode: 1}, {Output: output, ExitCode: code}}})
	}
	for _, test := range []struct {
		member *member
		detail detail
		want   string
		output string
	}{
		{in(container.StateRunning, ""), detail{}, "", ""},
		{in(container.StateRunning, container.Healthy), detail{check: failed("old", 1)}, "", ""},
		{in(container.StateRunning, container.Starting), detail{}, "health check: starting", ""},
		{in(container.StateRunning, container.Starting), detail{check: failed("refused", 7)}, "health check: starting: exit status 7", "refused"},
		{in(container.StateRunning, container.Unhealthy), detail{check: failed("curl: (7)\n\x1b[31mrefused\r\n", 7)}, "unhealthy: exit status 7", "curl: (7) [31mrefused"},
		{in(container.StateRunning, container.Unhealthy), detail{check: failed(" \n", 3)}, "unhealthy: exit status 3", ""},
		{in(container.StateRunning, container.Unhealthy), detail{check: failed("fine", 0)}, "unhealthy", ""},
		{in(container.StatePaused, ""), detail{}, "paused", ""},
		{in(container.StateCreated, ""), detail{}, "created, but not started", ""},
		{in(container.StateRestarting, ""), detail{exitCode: 3, restarts: 4}, "restarting: exited with 3, 4 restarts", ""},
		{in(container.StateExited, ""), detail{outOfMemory: true}, "ran out of memory and was killed", ""},
		{in(container.StateDead, ""), detail{}, "dead", ""},
		{in(container.StateRemoving, ""), detail{}, "is being removed", ""},
		{&member{Summary: container.Summary{State: container.StateRunning}, doomed: true}, detail{}, "is being removed", ""},
	} {
		if got := test.member.unreadyReason(&test.detail); got != test.want {
			t.Errorf("%s, %q: reason = %q, want %q", test.member.State, test.member.health, got, test.want)
		}
		if got := test.member.healthOutput(&test.detail); got != test.output {
			t.Errorf("%s, %q: output = %q, want %q", test.member.State, test.member.health, got, test.output)
		}
	}
	if got := failed(strings.Repeat("é", 4000), 1).output; len(got) > 1<<10 {
		t.Errorf("the output has %d bytes, want at most 1 KiB", len(got))
	}
}
