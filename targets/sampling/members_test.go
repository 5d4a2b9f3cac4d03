package sampling

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hpad/hpad/targets"
)

const interval = 10 * time.Second

var (
	web = targets.Ref{Fleet: "shop", Name: "web"}
	db  = targets.Ref{Fleet: "shop", Name: "db"}
)

func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// member is an instance with a sample. wrong is the error that reading the sample returns.
type member struct {
	name  string
	wrong error
}

// counting counts the passes of each member. The sample of the nth pass has a window of n
// seconds.
type counting struct {
	*Members[string, member, int]

	mu  sync.Mutex
	due [][]string
	// fails is the error of the next passes.
	fails error
}

func (c *counting) pass(_ context.Context, due []member) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var names []string
	for _, m := range due {
		c.Learn(m.name, func(known *int) { *known++ })
		names = append(names, m.name)
	}
	slices.Sort(names)
	c.due = append(c.due, names)
	return c.fails
}

// sample returns no sample for the first pass.
func (c *counting) sample(m member, known int) (*targets.InstanceSample, error) {
	if known < 2 {
		return nil, m.wrong
	}
	return &targets.InstanceSample{ID: m.name, Window: time.Duration(known) * time.Second}, m.wrong
}

func (c *counting) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fails = err
}

// wantSamples checks the samples of a target: "name passes" for each member, or "none" if there is
// no entry.
func (c *counting) wantSamples(t *testing.T, ref targets.Ref, want ...string) {
	t.Helper()
	answer, err := c.Samples([]targets.Ref{ref})
	synctest.Wait()
	if err != nil {
		t.Fatalf("Samples() = %v", err)
	}
	samples, published := answer[ref]
	if !published {
		if diff := cmp.Diff(want, []string{"none"}); diff != "" {
			t.Errorf("samples (-want +got):\n%s", diff)
		}
		return
	}
	var got []string
	for _, sample := range samples.Instances {
		got = append(got, fmt.Sprintf("%s %.0f", sample.ID, sample.Window.Seconds()))
	}
	if samples.Err != nil {
		got = append(got, samples.Err.Error())
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("samples (-want +got):\n%s", diff)
	}
}

// count runs a test in a synctest bubble, with Members that count their passes.
func count(t *testing.T, test func(t *testing.T, c *counting)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := &counting{}
		c.Members = NewMembers(interval, Kind[string, member, int]{
			Key: func(m member) string { return m.name }, Pass: c.pass, Sample: c.sample,
		})
		defer c.Close()
		test(t, c)
	})
}

// TestMembersOfTargets checks that a pass gets the members of targets that are published and in
// demand. Samples are in the order of the members.
func TestMembersOfTargets(t *testing.T) {
	count(t, func(t *testing.T, c *counting) {
		c.Publish(web, []member{{name: "w2"}, {name: "w1"}})
		c.Publish(db, []member{{name: "d1"}})
		c.wantSamples(t, web) // published, without a sample
		c.wantSamples(t, targets.Ref{Fleet: "shop", Name: "other"}, "none")
		pass(interval)
		c.wantSamples(t, web, "w2 2", "w1 2")
		c.wantSamples(t, db)
		pass(interval)
		c.wantSamples(t, web, "w2 3", "w1 3")
		if diff := cmp.Diff([][]string{{"w1", "w2"}, {"w1", "w2"}, {"d1", "w1", "w2"}}, c.due); diff != "" {
			t.Errorf("due (-want +got):\n%s", diff)
		}
	})
}

// TestRemovedMembers checks that a member that is no longer published has no sample, and that
// its value is deleted in the next pass.
func TestRemovedMembers(t *testing.T) {
	count(t, func(t *testing.T, c *counting) {
		c.Publish(web, []member{{name: "w1"}, {name: "w2"}})
		c.wantSamples(t, web)
		pass(interval)
		c.wantSamples(t, web, "w1 2", "w2 2")
		c.Publish(web, []member{{name: "w1"}, {name: "w3"}})
		c.wantSamples(t, web, "w1 2")
		c.Publish(web, []member{{name: "w1"}, {name: "w2"}})
		c.wantSamples(t, web, "w1 2", "w2 2") // without a pass in between
		c.Publish(web, []member{{name: "w1"}})
		pass(interval)
		c.Publish(web, []member{{name: "w1"}, {name: "w2"}})
		c.wantSamples(t, web, "w1 3")

		c.Withdraw(web)
		c.wantSamples(t, web, "none")
		pass(interval)
		c.Publish(web, []member{{name: "w1"}})
		c.wantSamples(t, web)
		c.Withdraw(db) // never published
	})
}

// TestFailedPass checks that the error of a pass is returned until the next
// successful pass or a pause.
func TestFailedPass(t *testing.T) {
	count(t, func(t *testing.T, c *counting) {
		broken := errors.New("no token")
		c.Publish(web, []member{{name: "w1"}})
		c.fail(broken)
		c.wantSamples(t, web)
		for range 2 {
			if answer, err := c.Samples([]targets.Ref{web}); !errors.Is(err, broken) || answer != nil {
				t.Errorf("Samples() = %v, %v, want the error of the pass", answer, err)
			}
			pass(interval)
		}
		c.fail(nil)
		pass(interval)
		c.wantSamples(t, web, "w1 4")
		c.fail(broken)
		pass(time.Minute)
		c.fail(nil)
		c.wantSamples(t, web)
	})
}

// TestDemand checks that passes continue for three intervals after a call of Samples.
func TestDemand(t *testing.T) {
	count(t, func(t *testing.T, c *counting) {
		c.Publish(web, []member{{name: "w1"}})
		pass(time.Minute)
		if c.Running() || len(c.due) > 0 {
			t.Errorf("passes before the first call = %v, want none", c.due)
		}
		c.wantSamples(t, web)
		pass(39 * time.Second)
		if !c.Running() {
			t.Error("Running() = false after less than four intervals")
		}
		pass(time.Hour)
		if c.Running() || len(c.due) != 4 {
			t.Errorf("passes = %v, want 4", c.due)
		}
		c.wantSamples(t, web)
		pass(interval)
		if !c.Running() {
			t.Error("Running() = false after another call")
		}
	})
}

// TestLongPeriod checks that a target with a long period is sampled continuously, even if other
// targets have shorter periods.
func TestLongPeriod(t *testing.T) {
	for name, often := range map[string]time.Duration{"no other target": 0, "every second": time.Second, "every minute": time.Minute} {
		t.Run(name, func(t *testing.T) {
			count(t, func(t *testing.T, c *counting) {
				const period = 5 * time.Minute
				c.Publish(web, []member{{name: "w1"}})
				c.Publish(db, []member{{name: "d1"}})
				for at := time.Duration(0); at < 4*period; at += time.Second {
					if at == 2*period {
						c.due = nil
					}
					// The second call follows soon after the first.
					if at%period == 0 || at%period == time.Second {
						_, _ = c.Samples([]targets.Ref{db})
					}
					if often > 0 && at%often == 0 {
						_, _ = c.Samples([]targets.Ref{web})
					}
					pass(time.Second)
				}
				without := slices.DeleteFunc(slices.Clone(c.due), func(names []string) bool { return slices.Contains(names, "d1") })
				if len(c.due) < int(2*period/interval)-1 || len(without) > 0 {
					t.Errorf("passes = %d, of which %d lack the target, want %d with the target", len(c.due), len(without), 2*period/interval)
				}
			})
		})
	}
}

// TestClose checks that Close interrupts a pass.
func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMembers(interval, Kind[string, member, int]{
			Key:    func(m member) string { return m.name },
			Pass:   func(ctx context.Context, _ []member) error { <-ctx.Done(); return ctx.Err() },
			Sample: func(member, int) (*targets.InstanceSample, error) { return nil, nil },
		})
		m.Publish(web, []member{{name: "w1"}})
		if _, err := m.Samples([]targets.Ref{web}); err != nil {
			t.Fatal(err)
		}
		m.Close()
		if _, err := m.Samples([]targets.Ref{web}); !errors.Is(err, targets.ErrTransient) {
			t.Errorf("Samples() after Close() = %v, want ErrTransient", err)
		}
		m.Close() // no effect
	})
}
