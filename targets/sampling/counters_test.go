package sampling

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hpad/hpad/policy"
)

func TestUsage(t *testing.T) {
	const validity = 35 * time.Second
	now := time.Now()
	cpu := func(milli int64) policy.Amount { return policy.Amount{Resource: "cpu", Milli: milli} }
	memory := policy.Amount{Resource: "memory", Milli: 7000}
	before := Counters{Run: "a", At: now.Add(-10 * time.Second), CPU: 1_000_000_000, HasCPU: true, Memory: 5}
	for _, test := range []struct {
		name   string
		change func(c *Counters)
		want   []policy.Amount
	}{
		{"half a core", func(c *Counters) { c.CPU = 6_000_000_000 }, []policy.Amount{cpu(500), memory}},
		{"idle", func(*Counters) {}, []policy.Amount{cpu(0), memory}},
		{"rounded away from zero", func(c *Counters) { c.CPU++ }, []policy.Amount{cpu(1), memory}},
		{"the counter decreased", func(c *Counters) { c.CPU-- }, []policy.Amount{memory}},
		{"cpu is not measured", func(c *Counters) { c.HasCPU = false }, []policy.Amount{memory}},
		{"memory is not measured", func(c *Counters) { c.Memory = -1 }, []policy.Amount{cpu(0)}},
		{"more cpu than possible", func(c *Counters) { c.CPU = math.MaxUint64 }, []policy.Amount{memory}},
		{"restarted", func(c *Counters) { c.Run = "b" }, nil},
		{"the clock was set back", func(c *Counters) { c.At = before.At.Add(-time.Second) }, nil},
		{"interval too long", func(c *Counters) { c.At = before.At.Add(validity + 1) }, nil},
		{"no new measurement", func(c *Counters) { *c = before }, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			var u Usage
			u.Add(before, before.At, validity)
			if got := u.Sample("i", "web", validity); got != nil {
				t.Fatalf("got sample %+v after one reading, want none", got)
			}
			second := before
			second.At, second.Memory = now, 7
			test.change(&second)
			u.Add(second, now, validity)
			var got []policy.Amount
			if sample := u.Sample("i", "web", validity); sample != nil {
				got = sample.Tasks[0].Usage
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("usage (-want +got):\n%s", diff)
			}
			third := second
			third.At, third.CPU, third.HasCPU = second.At.Add(15*time.Second), second.CPU+7_500_000_000, true
			u.Add(third, now, validity)
			u.Add(third, now, validity) // no new measurement: the sample is kept
			sample := u.Sample("i", "web", validity)
			if sample == nil || sample.Window != 15*time.Second || sample.At.After(now) {
				t.Errorf("got sample %+v after the third reading, want one that covers 15s and is not in the future", sample)
			}
		})
	}
}

// TestUsageAge checks that a sample expires.
func TestUsageAge(t *testing.T) {
	for age, want := range map[time.Duration]bool{34 * time.Second: true, 36 * time.Second: false} {
		u := Usage{added: time.Now().Add(-age), amounts: []policy.Amount{{Resource: "cpu"}}}
		if got := u.Sample("i", "web", 35*time.Second); (got != nil) != want {
			t.Errorf("got sample %+v after %v, want one: %v", got, age, want)
		}
	}
}
