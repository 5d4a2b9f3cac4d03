package cloud

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hpad/hpad/targets"
)

// counter is a meter that records calls and waits.
type counter struct {
	mu     sync.Mutex
	calls  int
	failed int
	waited time.Duration
}

func (c *counter) Call(_ string, _ time.Duration, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls++
	if err != nil {
		c.failed++
	}
}

func (c *counter) Wait(_ string, waited time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waited += waited
}

// The first and the longest pause after throttling.
const (
	firstWait   = time.Second
	longestWait = 20 * time.Second
)

func fine(context.Context) error { return nil }

func throttle(after time.Duration) func(context.Context) error {
	return func(context.Context) error {
		return fmt.Errorf("list: %w", &targets.ThrottledError{RetryAfter: after, Err: errors.New("rate exceeded")})
	}
}

var list = Call{Operation: "List", Class: Read}

func TestLimiterWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		meter := &counter{}
		l := NewLimiter(Limits{Calls: map[Class]Limit{Read: {PerSecond: 2, Burst: 3}}}, meter)
		begun := time.Now()
		for range 7 {
			if err := l.Do(t.Context(), list, fine); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(begun); took != 2*time.Second {
			t.Errorf("7 calls at 2 per second with a burst of 3 took %v, want 2s", took)
		}
		if err := l.Do(t.Context(), Call{Operation: "Set", Class: Write}, fine); err != nil || time.Since(begun) != 2*time.Second {
			t.Errorf("a call of a class without a limit took %v, %v", time.Since(begun), err)
		}
		if meter.calls != 8 || meter.waited != 2*time.Second {
			t.Errorf("counted calls = %d and wait = %v, want 8 and 2s", meter.calls, meter.waited)
		}
	})
}

func TestLimiterDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLimiter(Limits{Calls: map[Class]Limit{Read: {PerSecond: 0.1, Burst: 1}}}, nil)
		if err := l.Do(t.Context(), list, fine); err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		err := l.Do(ctx, list, fine)
		if !errors.Is(err, targets.ErrThrottled) || time.Since(begun) != 0 || !strings.Contains(err.Error(), "own limit") {
			t.Errorf("error of a call due after its deadline = %v after %v, want ErrThrottled immediately", err, time.Since(begun))
		}
		if err := l.refusal(); err != nil {
			t.Errorf("hpad's own limit started a pause: %v", err)
		}
		canceled, stop := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, stop)
		if err := l.Do(canceled, list, fine); !errors.Is(err, context.Canceled) || time.Since(begun) != time.Second {
			t.Errorf("error of a call canceled during its wait = %v after %v, want context.Canceled after 1s", err, time.Since(begun))
		}
		// Neither of the two calls used a token.
		if err := l.Do(t.Context(), list, fine); err != nil || time.Since(begun) != 10*time.Second {
			t.Errorf("the next call ended after %v with %v, want 10s", time.Since(begun), err)
		}
		patient, end := context.WithTimeout(t.Context(), 11*time.Second)
		defer end()
		if err := l.Do(patient, list, fine); err != nil || time.Since(begun) != 20*time.Second {
			t.Errorf("error of a call due before its deadline = %v after %v, want nil after 20s", err, time.Since(begun))
		}
	})
}

func TestLimiterTargets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLimiter(Limits{TargetCalls: map[Class]Limit{Write: {PerSecond: 1, Burst: 1}}}, nil)
		begun := time.Now()
		do := func(target string) {
			t.Helper()
			if err := l.Do(t.Context(), Call{Operation: "Set", Class: Write, Target: target}, fine); err != nil {
				t.Fatal(err)
			}
		}
		do("a")
		do("b")
		if took := time.Since(begun); took != 0 {
			t.Errorf("calls for two targets took %v, want 0", took)
		}
		do("a")
		if took := time.Since(begun); took != time.Second {
			t.Errorf("two calls for one target took %v, want 1s", took)
		}
	})
}

func TestLimiterBacksOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		meter := &counter{}
		l := NewLimiter(Limits{}, meter)
		var waits []time.Duration
		for range 8 {
			if err := l.Do(t.Context(), list, throttle(0)); !errors.Is(err, targets.ErrThrottled) {
				t.Fatalf("Do() = %v, want ErrThrottled", err)
			}
			calls := meter.calls
			err := l.Do(t.Context(), Call{Operation: "Set", Class: Write}, fine)
			var throttled *targets.ThrottledError
			if !errors.As(err, &throttled) || throttled.RetryAfter <= 0 || meter.calls != calls || !strings.Contains(err.Error(), "rate exceeded") {
				t.Fatalf("error of a call of another class = %v after %d calls, want ErrThrottled without a call", err, meter.calls-calls)
			}
			waits = append(waits, throttled.RetryAfter)
			time.Sleep(throttled.RetryAfter + time.Millisecond)
			// An error other than throttling does not reset the length of the next pause.
			broken := errors.New("broken")
			if err := l.Do(t.Context(), list, func(context.Context) error { return broken }); !errors.Is(err, broken) {
				t.Fatal(err)
			}
		}
		for n, wait := range waits {
			longest := min(firstWait<<n, longestWait)
			if wait < longest/2 || wait > longest {
				t.Errorf("wait %d = %v, want from %v to %v", n, wait, longest/2, longest)
			}
		}
		if err := l.Do(t.Context(), list, fine); err != nil {
			t.Fatal(err)
		}
		if err := l.Do(t.Context(), list, throttle(0)); !errors.Is(err, targets.ErrThrottled) {
			t.Fatal(err)
		}
		time.Sleep(firstWait)
		if err := l.Do(t.Context(), list, fine); err != nil {
			t.Errorf("first wait after a success is longer than %v: %v", firstWait, err)
		}
	})
}

func TestLimiterRetryAfter(t *testing.T) {
	for _, c := range []struct {
		name             string
		retryAfter, want time.Duration
	}{
		{"accepted", 17 * time.Second, 17 * time.Second},
		{"too long", 300 * 24 * time.Hour, time.Hour},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := NewLimiter(Limits{}, nil)
				_ = l.Do(t.Context(), list, throttle(c.retryAfter))
				time.Sleep(c.want - time.Millisecond)
				if err := l.Do(t.Context(), list, fine); !errors.Is(err, targets.ErrThrottled) {
					t.Errorf("error just before %v = %v, want ErrThrottled", c.want, err)
				}
				time.Sleep(2 * time.Millisecond)
				if err := l.Do(t.Context(), list, fine); err != nil {
					t.Errorf("error after %v = %v, want nil", c.want, err)
				}
			})
		})
	}
}

// TestLimiterSameTime checks that concurrent throttled calls extend the pause only once, and that
// the success of a call that began before them does not end the pause.
func TestLimiterSameTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLimiter(Limits{}, nil)
		slow := func(result func(context.Context) error) func(context.Context) error {
			return func(ctx context.Context) error {
				time.Sleep(100 * time.Millisecond)
				return result(ctx)
			}
		}
		var group sync.WaitGroup
		for range 5 {
			group.Go(func() { _ = l.Do(t.Context(), list, slow(throttle(0))) })
		}
		group.Go(func() {
			_ = l.Do(t.Context(), list, func(context.Context) error {
				time.Sleep(200 * time.Millisecond)
				return nil
			})
		})
		group.Wait()
		throttled, ok := errors.AsType[*targets.ThrottledError](l.refusal())
		if !ok {
			t.Fatal("a success that began before the throttling ended the pause")
		}
		if throttled.RetryAfter > firstWait {
			t.Errorf("wait after five concurrent throttled calls = %v, want at most %v", throttled.RetryAfter, firstWait)
		}
	})
}

func TestLimiterRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLimiter(Limits{Calls: map[Class]Limit{Read: {PerSecond: 1, Burst: 3}}}, nil)
		call := func(err error) {
			_ = l.Do(t.Context(), Call{Operation: "Describe", Class: Read}, func(context.Context) error { return err })
		}
		if got := l.room(Read); got != 3 {
			t.Errorf("room() of a full bucket = %d, want 3", got)
		}
		call(nil)
		call(nil)
		if got := l.room(Read); got != 1 {
			t.Errorf("room() after two calls = %d, want 1", got)
		}
		time.Sleep(time.Second)
		if got := l.room(Read); got != 2 {
			t.Errorf("room() a second later = %d, want 2", got)
		}
		if got := l.room(Write); got < 1_000_000 {
			t.Errorf("room() of a class without a limit = %d, want a high number", got)
		}
		call(&targets.ThrottledError{RetryAfter: time.Minute, Err: errors.New("too many")})
		if got := l.room(Write); got != 0 {
			t.Errorf("room() during a pause = %d, want 0", got)
		}
	})
}
