package compose

import (
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
