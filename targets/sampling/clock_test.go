package sampling

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hpad/hpad/targets"
)

const interval = 10 * time.Second

var (
	web = targets.Ref{Fleet: "shop", Name: "web"}
	db  = targets.Ref{Fleet: "shop", Name: "db"}
)

// record records the passes and pauses of a Clock.
type record struct {
	mu     sync.Mutex
	passes []time.Time
	wanted [][]targets.Ref
	rests  int
	// takes is the duration of a pass, and cut the number of passes interrupted by Close.
	takes time.Duration
	cut   int
}

func (r *record) pass(ctx context.Context, wanted []targets.Ref) {
	slices.SortFunc(wanted, func(a, b targets.Ref) int { return strings.Compare(a.Name, b.Name) })
	r.mu.Lock()
	r.passes = append(r.passes, time.Now())
	r.wanted = append(r.wanted, wanted)
	takes := r.takes
	r.mu.Unlock()
	timer := time.NewTimer(takes)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		r.mu.Lock()
		defer r.mu.Unlock()
		r.cut++
	}
}

func (r *record) rest() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rests++
}

// get returns the numbers of passes, interrupted passes and pauses.
func (r *record) get() (passes, cut, rests int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.passes), r.cut, r.rests
}

// since returns the times of the passes, and deletes them.
func (r *record) since(begin time.Time) []time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	var after []time.Duration
	for _, at := range r.passes {
		after = append(after, at.Sub(begin))
	}
	r.passes = nil
	return after
}

// run tests a Clock in a synctest bubble.
func run(t *testing.T, test func(t *testing.T, c *Clock, r *record)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &record{}
		c := NewClock(interval, r.pass, r.rest)
		defer c.Close()
		test(t, c, r)
	})
}

func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func TestPassesWhileAsked(t *testing.T) {
	run(t, func(t *testing.T, c *Clock, r *record) {
		pass(time.Minute)
		if passes, _, _ := r.get(); c.Running() || passes > 0 {
			t.Fatalf("%d passes before the first demand", passes)
		}
		begin := time.Now()
		for range 6 { // every 5s, for half a minute
			if !c.Ask([]targets.Ref{web}, time.Now()) {
				t.Fatal("Ask() = false, want true")
			}
			pass(5 * time.Second)
		}
		if !c.Running() {
			t.Error("Running() = false while it is asked")
		}
		if got, want := r.since(begin), []time.Duration{0, interval, 2 * interval, 3 * interval}; !slices.Equal(got, want) {
			t.Errorf("passes after %v, want %v", got, want)
		}
	})
}

// TestRests checks that after three intervals without a call the Clock pauses, and the next
// call resumes it.
func TestRests(t *testing.T) {
	run(t, func(t *testing.T, c *Clock, r *record) {
		begin := time.Now()
		c.Ask(nil, begin)
		pass(39 * time.Second)
		if _, _, rests := r.get(); !c.Running() || rests != 0 {
			t.Error("the clock rests before it is idle")
		}
		pass(21 * time.Second)
		if _, _, rests := r.get(); c.Running() || rests != 1 {
			t.Errorf("running is %v, rested %d times, want rest once", c.Running(), rests)
		}
		if got, want := r.since(begin), []time.Duration{0, interval, 2 * interval, 3 * interval}; !slices.Equal(got, want) {
			t.Errorf("passes after %v, want %v", got, want)
		}
		c.Ask(nil, time.Now())
		synctest.Wait()
		if got, want := r.since(begin), []time.Duration{time.Minute}; !slices.Equal(got, want) {
			t.Errorf("passes after %v, want %v", got, want)
		}
	})
}

// TestPeriodsBesideEachOther checks that a target with a long period is sampled all the time,
// even next to targets with different periods.
func TestPeriodsBesideEachOther(t *testing.T) {
	for name, c := range map[string]struct {
		step time.Duration
		asks func(step int) []targets.Ref
	}{
		"beside one asked for often":  {5 * time.Second, func(int) []targets.Ref { return []targets.Ref{web} }},
		"asked for twice, soon after": {time.Second, func(step int) []targets.Ref { return map[int][]targets.Ref{1: {db}}[step%300] }},
		"one seldom, soon after":      {time.Second, func(step int) []targets.Ref { return map[int][]targets.Ref{1: {web}}[step%300] }},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(t *testing.T, clock *Clock, r *record) {
				const period = 5 * time.Minute
				for step := range int(4 * period / c.step) {
					if step == int(2*period/c.step) {
						r.mu.Lock()
						r.wanted = nil
						r.mu.Unlock()
					}
					if step%int(period/c.step) == 0 {
						clock.Ask([]targets.Ref{db}, time.Now())
					}
					if asked := c.asks(step); asked != nil {
						clock.Ask(asked, time.Now())
					}
					pass(c.step)
				}
				r.mu.Lock()
				defer r.mu.Unlock()
				without := slices.DeleteFunc(slices.Clone(r.wanted), func(refs []targets.Ref) bool { return slices.Contains(refs, db) })
				if len(r.wanted) < int(2*period/interval)-1 || len(without) > 0 {
					t.Errorf("%d passes, %d without the target, want %d with it", len(r.wanted), len(without), 2*period/interval)
				}
			})
		})
	}
}

// TestWanted checks that a pass gets the targets in demand.
func TestWanted(t *testing.T) {
	run(t, func(t *testing.T, c *Clock, r *record) {
		c.Ask([]targets.Ref{web, db}, time.Now())
		pass(time.Second)
		for range 10 {
			c.Ask([]targets.Ref{web}, time.Now())
			pass(5 * time.Second)
		}
		both, one := []targets.Ref{db, web}, []targets.Ref{web}
		want := [][]targets.Ref{both, both, both, both, one, one}
		r.mu.Lock()
		defer r.mu.Unlock()
		if !slices.EqualFunc(r.wanted, want, slices.Equal) {
			t.Errorf("wanted %v, want %v", r.wanted, want)
		}
	})
}

func TestClose(t *testing.T) {
	run(t, func(t *testing.T, c *Clock, r *record) {
		r.takes = time.Hour
		begin := time.Now()
		c.Ask(nil, begin)
		pass(time.Second)
		c.Close()
		if _, cut, _ := r.get(); time.Since(begin) != time.Second || cut != 1 {
			t.Errorf("closed after %v, %d passes cut short, want one at once", time.Since(begin), cut)
		}
		if c.Ask(nil, time.Now()) {
			t.Error("Ask() after Close() = true, want false")
		}
		pass(time.Hour)
		if passes, _, _ := r.get(); passes != 1 {
			t.Errorf("%d passes, want none after Close()", passes)
		}
		c.Close() // no effect
	})
}
