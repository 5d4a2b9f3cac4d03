package cloud

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hpad/hpad/targets"
)

// reads are limits of calls that read.
func reads(perSecond float64, burst int) Limits {
	return Limits{Calls: map[Class]Limit{Read: {PerSecond: perSecond, Burst: burst}}}
}

// call makes so many calls, which must be let through.
func call(t *testing.T, l *Limiter, n int) {
	t.Helper()
	for range n {
		if err := l.Do(t.Context(), list, fine); err != nil {
			t.Fatal(err)
		}
	}
}

// at holds how long it took until now.
func at(t *testing.T, begun time.Time, want time.Duration, what string) {
	t.Helper()
	if took := time.Since(begun); took != want {
		t.Errorf("%s: %v after the beginning, want %v", what, took, want)
	}
}

func TestAccountShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var accounts Accounts
		var meters [2]counter
		one := accounts.Limiter("account", reads(1, 4), &meters[0])
		two := accounts.Limiter("account", reads(1, 4), &meters[1])
		other := accounts.Limiter("another account", reads(1, 4), nil)
		begun := time.Now()
		call(t, one, 3)
		call(t, two, 1)
		at(t, begun, 0, "a burst of four by two fleets")
		call(t, two, 2)
		at(t, begun, 2*time.Second, "two more")
		call(t, other, 4)
		at(t, begun, 2*time.Second, "another account's burst")
		if meters[0].calls != 3 || meters[0].waited != 0 || meters[1].calls != 3 || meters[1].waited != 2*time.Second {
			t.Errorf("counted %+v and %+v, want each fleet's own calls and waits", &meters[0], &meters[1])
		}

		_ = one.Do(t.Context(), list, throttle(10*time.Second))
		err := two.Do(t.Context(), list, fine)
		if !errors.Is(err, targets.ErrThrottled) || !strings.Contains(err.Error(), "rate exceeded") || meters[1].failed != 0 || two.Room(Read) != 0 {
			t.Errorf("a fleet beside one that was refused = %v with room for %d calls, want the refusal and none", err, two.Room(Read))
		}
		if err := other.Refusal(); err != nil {
			t.Errorf("another account: %v", err)
		}
		time.Sleep(10*time.Second + time.Millisecond)
		call(t, two, 1)
		if err := one.Refusal(); err != nil {
			t.Errorf("after a call of the other fleet: %v", err)
		}
	})
}

// TestAccountTargets: fleets that share an account share what is allowed for a target.
func TestAccountTargets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var accounts Accounts
		limits := func(perSecond float64) Limits {
			return Limits{TargetCalls: map[Class]Limit{Write: {PerSecond: perSecond, Burst: 1}}}
		}
		one, two := accounts.Limiter("account", limits(1), nil), accounts.Limiter("account", limits(1), nil)
		begun := time.Now()
		write := func(l *Limiter) {
			t.Helper()
			if err := l.Do(t.Context(), Call{Operation: "Set", Class: Write, Target: "web"}, fine); err != nil {
				t.Fatal(err)
			}
		}
		write(one)
		write(two)
		at(t, begun, time.Second, "the second change of one target")
		accounts.Limiter("account", limits(0.1), nil)
		write(one)
		write(one)
		at(t, begun, 21*time.Second, "two changes more beside a fleet with smaller limits")
	})
}

// TestAccountSmallest: the smallest limits of the fleets of an account are in force, as
// long as such a fleet is there.
func TestAccountSmallest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var accounts Accounts
		quick := accounts.Limiter("account", reads(10, 40), nil)
		slow := accounts.Limiter("account", reads(1, 50), nil)
		begun := time.Now()
		call(t, quick, 42)
		at(t, begun, 2*time.Second, "two calls beyond the smaller burst")
		slow.Close()
		call(t, quick, 5)
		at(t, begun, 2500*time.Millisecond, "five calls once the slower fleet is gone")
	})
}

// TestAccountReload: neither a fleet in another's place nor one that comes back later
// begins with full buckets.
func TestAccountReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var accounts Accounts
		begun := time.Now()
		current := accounts.Limiter("account", reads(1, 5), nil)
		call(t, current, 5)
		for range 3 {
			next := accounts.Limiter("account", reads(1, 5), nil)
			current.Close()
			call(t, next, 1)
			current = next
		}
		at(t, begun, 3*time.Second, "a call after each of three reloads")
		_ = current.Do(t.Context(), list, throttle(time.Minute))
		current.Close()
		again := accounts.Limiter("account", reads(1, 5), nil)
		if err := again.Refusal(); !errors.Is(err, targets.ErrThrottled) {
			t.Errorf("a fleet that comes back calls a platform that wants to be left alone: %v", err)
		}
	})
}
