package cloud

import (
	"errors"
	"fmt"
	"strings"
	"sync"
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

// TestAccountLeast: of any number of fleets the slowest and the smallest burst count,
// also where these are two fleets' and come later.
func TestAccountLeast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var accounts Accounts
		first := accounts.Limiter("account", reads(100, 40), nil)
		for range 8 {
			accounts.Limiter("account", reads(50, 60), nil)
			accounts.Limiter("account", reads(10, 80), nil)
			accounts.Limiter("account", reads(80, 20), nil)
		}
		if room := first.Room(Read); room != 20 {
			t.Errorf("room for %d calls, want the smallest burst of 20", room)
		}
		begun := time.Now()
		call(t, first, 25)
		at(t, begun, 500*time.Millisecond, "five calls beyond the burst at the slowest rate")
	})
}

// TestAccountOwnBuckets: what was spent of a target's own limit stays spent when its
// fleet goes and comes back; what nobody uses any more does not pile up.
func TestAccountOwnBuckets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var accounts Accounts
		limits := Limits{
			Calls:       map[Class]Limit{Read: {PerSecond: 1e6, Burst: 1e6}, Write: {PerSecond: 1e6, Burst: 1e6}},
			TargetCalls: map[Class]Limit{Write: {PerSecond: 0.1, Burst: 1}},
		}
		do := func(l *Limiter, class Class, target string) {
			t.Helper()
			if err := l.Do(t.Context(), Call{Operation: "Set", Class: class, Target: target}, fine); err != nil {
				t.Fatal(err)
			}
		}
		begun := time.Now()
		l := accounts.Limiter("account", limits, nil)
		do(l, Write, "web")
		l.Close()
		time.Sleep(time.Second) // what is allowed for the account is all there again
		l = accounts.Limiter("account", limits, nil)
		do(l, Write, "web")
		at(t, begun, 10*time.Second, "a change by a fleet that came back")
		for range 5 {
			do(l, Read, "web")
			do(l, Write, "")
		}
		at(t, begun, 10*time.Second, "calls of a class, and without a target, that have no limit of their own")
		for n := range 8 * smallestSweep {
			if n%smallestSweep == 0 {
				time.Sleep(10 * time.Second)
			}
			do(l, Write, fmt.Sprint(n))
		}
		if kept := len(l.account.buckets); kept > 2*smallestSweep {
			t.Errorf("%d buckets of targets are kept, of which no more than %d are in use", kept, smallestSweep)
		}
	})
}

// TestAccountMoved: fleets that turn out to be of another account than before leave
// nothing of theirs in the first one, and meet there whoever comes later.
func TestAccountMoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var accounts Accounts
		quick, slow := accounts.Limiter("key 1", reads(10, 10), nil), accounts.Limiter("key 2", reads(1, 4), nil)
		quick.CountWith("account")
		slow.CountWith("account")
		if room := quick.Room(Read); room != 4 {
			t.Errorf("room for %d calls beside a slower fleet, want 4", room)
		}
		slow.CountWith("another account")
		time.Sleep(time.Minute)
		if room := quick.Room(Read); room != 10 {
			t.Errorf("room for %d calls once the slower fleet counts elsewhere, want 10", room)
		}
		call(t, slow, 3)
		next := accounts.Limiter("key 2", reads(1, 4), nil)
		third := accounts.Limiter("key 3", reads(1, 4), nil)
		third.CountWith("another account")
		fourth := accounts.Limiter("key 3", reads(1, 4), nil)
		for name, l := range map[string]*Limiter{"the same caller": next, "another caller": third, "that caller's next fleet": fourth} {
			if room := l.Room(Read); room != 1 {
				t.Errorf("room for %d calls by %s of the account, want the 1 that is left", room, name)
			}
		}
	})
}

// TestAccountReload: neither a fleet in another's place nor one that comes back later
// begins with full buckets; and what nobody uses is dropped once it is full.
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
		again.CountWith("known")
		again.Close()
		time.Sleep(time.Minute + time.Second)
		accounts.Limiter("another account", reads(1, 5), nil).Close()
		if len(accounts.known) != 1 { // that which is asked for
			t.Errorf("%d names are kept, want none that nobody uses", len(accounts.known)-1)
		}
	})
}

// TestAccountLearned: fleets that turn out to be of one account share it from then on,
// also with the fleets that come after them; no bucket is poured into another one.
func TestAccountLearned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var accounts Accounts
		begun := time.Now()
		one := accounts.Limiter("key 1", reads(1, 10), nil)
		two := accounts.Limiter("key 2", reads(1, 10), nil)
		call(t, one, 4)
		call(t, two, 3)
		one.CountWith("account")
		two.CountWith("account")
		two.CountWith("account")
		for name, l := range map[string]*Limiter{"the first": one, "the second": two} {
			if room := l.Room(Read); room != 6 {
				t.Errorf("%s fleet has room for %d calls in the account's bucket of 10 after 4 calls of its own, want 6", name, room)
			}
		}
		call(t, two, 7)
		at(t, begun, time.Second, "a call beyond the six that were left")

		next := accounts.Limiter("key 2", reads(1, 10), nil)
		two.Close()
		call(t, next, 1)
		at(t, begun, 2*time.Second, "a call after a reload")
		next.CountWith("account")
		_ = one.Do(t.Context(), list, throttle(time.Minute))
		if err := next.Refusal(); !errors.Is(err, targets.ErrThrottled) {
			t.Errorf("what was refused to a fleet of the account does not hold the others: %v", err)
		}

		// Other credentials in the same place are another account's.
		next.CountWith("another account")
		if err := next.Refusal(); err != nil || next.Room(Read) != 10 || one.Refusal() == nil {
			t.Errorf("the other account has room for %d calls, %v; the first one says %v", next.Room(Read), err, one.Refusal())
		}
		next.Close()
		next.CountWith("account") // of a response that came late
		if err := accounts.Limiter("key 2", reads(1, 10), nil).Refusal(); err != nil {
			t.Errorf("a fleet that was closed moved its caller: %v", err)
		}
	})
}

// TestAccountBusy has fleets come, learn their account, call and go all at once.
func TestAccountBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var accounts Accounts
		limits := reads(10, 20)
		limits.TargetCalls = map[Class]Limit{Read: {PerSecond: 5, Burst: 10}}
		begun := time.Now()
		var group sync.WaitGroup
		for n := range 8 {
			group.Go(func() {
				for range 10 {
					l := accounts.Limiter("the caller", limits, nil)
					for range 4 {
						if err := l.Do(t.Context(), Call{Operation: "List", Class: Read, Target: fmt.Sprint(n % 2)}, fine); err != nil {
							t.Error(err)
						}
						l.CountWith("account")
						l.Room(Read)
					}
					l.Close()
				}
			})
		}
		group.Wait()
		// Two targets of 5 a second and a burst of 10 are as fast as the account.
		at(t, begun, (8*10*4-20)/10*time.Second, "320 calls by fleets that come and go")
	})
}
