package cloud

import (
	"maps"
	"math"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/hpad/hpad/targets"
)

// Accounts are those of platforms that the fleets of a process call. What a platform
// counts together, as the calls of one account and region, is limited together here,
// however many fleets make the calls; and where the platform throttles a call, none of
// them calls it for a while. The zero value has none yet. It is safe for concurrent use.
//
// An account is kept as long as a fleet calls it, and then until its buckets are full
// again, so that neither a reload nor a fleet that is taken away and put back is a way
// around its limits.
type Accounts struct {
	// mu guards all accounts.
	mu sync.Mutex
	// known are the accounts by their names, and by the callers that were last of each.
	known map[string]*account
}

// account is what a platform counts together.
type account struct {
	backoff targets.Backoff
	// named reports whether it has a name besides its callers'.
	named   bool
	users   map[*Limiter]bool
	buckets map[bucketKey]*rate.Limiter
	sweepAt int
}

// bucketKey is a class of calls: of those for one target, or of all where target is
// empty.
type bucketKey struct {
	target string
	class  Class
}

// smallestSweep is how many buckets there are before those that nobody uses are
// dropped.
const smallestSweep = 1024

// Limiter returns a limiter for the calls of a fleet. Caller is who the platform takes
// the fleet for, as far as that is known without asking it: fleets of the same caller
// are limited together from the first call on, others once [Limiter.CountWith] names
// the same account. The limits in force are the smallest of all fleets of an account. A
// nil meter counts nothing, and nil Accounts give the fleet an account of its own.
func (a *Accounts) Limiter(caller string, limits Limits, meter targets.Meter) *Limiter {
	if a == nil {
		a = &Accounts{}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.known == nil {
		a.known = map[string]*account{}
	}
	now := time.Now()
	maps.DeleteFunc(a.known, func(_ string, old *account) bool { return len(old.users) == 0 && old.idle(now) })
	l := &Limiter{accounts: a, caller: caller, limits: limits, meter: meter, account: a.known[caller]}
	if l.account == nil {
		l.account = newAccount()
		a.known[caller] = l.account
	}
	l.account.users[l] = true
	l.account.restrict()
	return l
}

func newAccount() *account {
	return &account{users: map[*Limiter]bool{}, buckets: map[bucketKey]*rate.Limiter{}, sweepAt: smallestSweep}
}

// CountWith names the account that the platform counts the fleet's calls with, and so
// those of the caller's next fleets. It may be called again, and name another account
// than before.
func (l *Limiter) CountWith(name string) {
	a := l.accounts
	a.mu.Lock()
	defer a.mu.Unlock()
	from, to := l.account, a.known[name]
	switch {
	case !from.users[l], from == to: // closed meanwhile, or there already
		return
	case to == nil && !from.named:
		to = from
	case to == nil:
		to = newAccount()
	}
	to.named = true
	a.known[name], a.known[l.caller] = to, to
	delete(from.users, l)
	from.restrict()
	to.users[l] = true
	to.restrict()
	l.account = to
}

// Close ends the fleet's part in its account. Calls that are still made count
// nevertheless.
func (l *Limiter) Close() {
	l.accounts.mu.Lock()
	defer l.accounts.mu.Unlock()
	delete(l.account.users, l)
	l.account.restrict()
}

// limit returns the smallest limit that a fleet of the account has for a class of
// calls; false where none has any.
func (a *account) limit(key bucketKey) (Limit, bool) {
	least, limited := Limit{PerSecond: math.Inf(1), Burst: math.MaxInt}, false
	for user := range a.users {
		limits := user.limits.Calls
		if key.target != "" {
			limits = user.limits.TargetCalls
		}
		if limit, ok := limits[key.class]; ok {
			least = Limit{PerSecond: min(least.PerSecond, limit.PerSecond), Burst: min(least.Burst, limit.Burst)}
			limited = true
		}
	}
	return least, limited
}

// restrict puts the smallest limits of all fleets in force; what is in the buckets
// stays.
func (a *account) restrict() {
	for key, bucket := range a.buckets {
		if limit, ok := a.limit(key); ok {
			bucket.SetLimit(rate.Limit(limit.PerSecond))
			bucket.SetBurst(limit.Burst)
		}
	}
}

// bucket returns that of a class of calls; nil where it has no limit.
func (a *account) bucket(key bucketKey) *rate.Limiter {
	if bucket := a.buckets[key]; bucket != nil {
		return bucket
	}
	limit, ok := a.limit(key)
	if !ok {
		return nil
	}
	if len(a.buckets) >= a.sweepAt {
		maps.DeleteFunc(a.buckets, func(_ bucketKey, idle *rate.Limiter) bool { return full(idle) }) // a new one would be the same
		a.sweepAt = max(smallestSweep, 2*len(a.buckets))
	}
	bucket := rate.NewLimiter(rate.Limit(limit.PerSecond), limit.Burst)
	a.buckets[key] = bucket
	return bucket
}

// idle reports whether the account is as a new one would be.
func (a *account) idle(now time.Time) bool {
	for _, bucket := range a.buckets {
		if !full(bucket) {
			return false
		}
	}
	left, _ := a.backoff.Left(now)
	return left == 0
}

func full(bucket *rate.Limiter) bool { return bucket.Tokens() >= float64(bucket.Burst()) }
