package round

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets/clock"
)

// TestDatesBeforeTheFirstStep checks that times read before the first step back of the wall clock
// remain the same when the wall clock repeats them.
func TestDatesBeforeTheFirstStep(t *testing.T) {
	for _, by := range []time.Duration{-57 * time.Second, -2 * time.Second, -time.Hour, time.Hour} {
		t.Run(by.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var step time.Duration
				c := clock.New(clock.System{Wall: func() time.Time { return time.Now().Add(step) }})
				var known dates
				read := func(instances ...policy.Instance) []policy.Instance {
					var dated []policy.Instance
					dated, known = known.of(instances, c.Scale(), c.Now())
					return dated
				}
				time.Sleep(time.Hour)
				old := policy.Instance{ID: "b", StartedAt: c.Now().Add(-20 * time.Second), ReadinessChanged: c.Now().Add(-time.Second)}
				never := policy.Instance{ID: "c", StartedAt: c.Now().Add(-20 * time.Second)}
				read(old, never)
				time.Sleep(time.Second)
				step = by
				c.TakeStep()
				stepped := c.Now()
				time.Sleep(by.Abs() + 10*time.Second) // the wall clock repeats all of these times
				since := c.Scale().Wall(c.Now())
				young := policy.Instance{ID: "a", StartedAt: since, ReadinessChanged: since}
				for range 2 {
					dated := read(young, never, old)
					if got := dated[2]; !got.StartedAt.Equal(old.StartedAt) || !got.ReadinessChanged.Equal(old.ReadinessChanged) {
						t.Errorf("dates of an instance from before the step = %s and %s, want %s and %s", got.StartedAt, got.ReadinessChanged, old.StartedAt, old.ReadinessChanged)
					}
					if got := dated[1]; !got.StartedAt.Equal(never.StartedAt) || !got.ReadinessChanged.IsZero() {
						t.Errorf("dates of an instance that was never ready = %s and %s", got.StartedAt, got.ReadinessChanged)
					}
					if got := dated[0]; !got.StartedAt.After(stepped) {
						t.Errorf("start of an instance from after the step at %s = %s", stepped, got.StartedAt)
					}
					time.Sleep(time.Minute)
				}
			})
		})
	}
}
