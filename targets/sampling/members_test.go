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

// member is a test member. wrong is the error of its sample.
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

// says checks the samples of a target: "name passes" for each member, or "none" if there is no
// entry.
func (c *counting) says(t *testing.T, ref targets.Ref, want ...string) {
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

// count tests Members in a synctest bubble.
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
		c.says(t, web) // published, without a sample
		c.says(t, targets.Ref{Fleet: "shop", Name: "other"}, "none")
		pass(interval)
		c.says(t, web, "w2 2", "w1 2")
		c.says(t, db)
		pass(interval)
		c.says(t, web, "w2 3", "w1 3")
		if diff := cmp.Diff([][]string{{"w1", "w2"}, {"w1", "w2"}, {"d1", "w1", "w2"}}, c.due); diff != "" {
			t.Errorf("due (-want +got):\n%s", diff)
		}
	})
}

// TestMembersThatGo checks that a member that is no longer published has no sample, and that
// its value is deleted in the next pass.
func TestMembersThatGo(t *testing.T) {
	count(t, func(t *testing.T, c *counting) {
		c.Publish(web, []member{{name: "w1"}, {name: "w2"}})
		c.says(t, web)
		pass(interval)
		c.says(t, web, "w1 2", "w2 2")
		c.Publish(web, []member{{name: "w1"}, {name: "w3"}})
		c.says(t, web, "w1 2")
		c.Publish(web, []member{{name: "w1"}, {name: "w2"}})
		c.says(t, web, "w1 2", "w2 2") // without a pass in between
		c.Publish(web, []member{{name: "w1"}})
		pass(interval)
		c.Publish(web, []member{{name: "w1"}, {name: "w2"}})
		c.says(t, web, "w1 3")

		c.Withdraw(web)
		c.says(t, web, "none")
		pass(interval)
		c.Publish(web, []member{{name: "w1"}})
		c.says(t, web)
		c.Withdraw(db) // never published
	})
}

// TestPassThatFindsNothing checks that the error of a pass is returned until the next
// successful pass or a pause.
func TestPassThatFindsNothing(t *testing.T) {
	count(t, func(t *testing.T, c *counting) {
		broken := errors.New("no token")
		c.Publish(web, []member{{name: "w1"}})
		c.fail(broken)
		c.Ask([]targets.Ref{web}, time.Now())
		synctest.Wait()
		for range 2 {
			if answer, err := c.Samples([]targets.Ref{web}); !errors.Is(err, broken) || answer != nil {
				t.Errorf("Samples() = %v, %v, want what the pass says", answer, err)
			}
			pass(interval)
		}
		c.fail(nil)
		pass(interval)
		c.says(t, web, "w1 4")
		c.fail(broken)
		pass(time.Minute)
		c.fail(nil)
		c.says(t, web)
	})
}
