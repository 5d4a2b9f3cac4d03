package cloud

import (
	"math"
	"sync"

	"golang.org/x/time/rate"

	"github.com/hpad/hpad/targets"
)

// Accounts are the accounts that the fleets of a process call. All fleets of an account
// share its limits, and wait together after the platform throttled one of them. Accounts
// are kept until the process ends, so that a reload does not start with full buckets. The
// zero value is empty. It is safe for concurrent use.
type Accounts struct {
	// mu guards all accounts.
	mu    sync.Mutex
	known map[string]*account
}

// account is a unit in which a platform counts calls.
type account struct {
	backoff targets.Backoff
	users   map[*Limiter]bool
	buckets map[bucketKey]*rate.Limiter
}

// bucketKey is a class of calls: for one target, or for all if target is empty.
type bucketKey struct {
	target string
	class  Class
}

// Limiter returns a limiter for the calls of a fleet to an account. The smallest limits of
// the account's fleets apply. A nil meter counts nothing, and nil Accounts give the fleet
// an account of its own.
func (a *Accounts) Limiter(name string, limits Limits, meter targets.Meter) *Limiter {
	if a == nil {
		a = &Accounts{}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.known == nil {
		a.known = map[string]*account{}
	}
	if a.known[name] == nil {
		a.known[name] = &account{users: map[*Limiter]bool{}, buckets: map[bucketKey]*rate.Limiter{}}
	}
	l := &Limiter{accounts: a, account: a.known[name], limits: limits, meter: meter}
	l.account.users[l] = true
	return l
}

// Close ends the fleet's share of its account. Calls that are still made count
// nevertheless.
func (l *Limiter) Close() {
	l.accounts.mu.Lock()
	defer l.accounts.mu.Unlock()
	delete(l.account.users, l)
}

// limit returns the smallest limit that a fleet of the account has for a class of calls;
// false if no fleet has one.
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

// bucket returns the bucket of a class of calls; nil if it has no limit.
func (a *account) bucket(key bucketKey) *rate.Limiter {
	limit, ok := a.limit(key)
	bucket := a.buckets[key]
	switch {
	case !ok:
	case bucket == nil:
		bucket = rate.NewLimiter(rate.Limit(limit.PerSecond), limit.Burst)
		a.buckets[key] = bucket
	case bucket.Limit() != rate.Limit(limit.PerSecond) || bucket.Burst() != limit.Burst:
		bucket.SetLimit(rate.Limit(limit.PerSecond))
		bucket.SetBurst(limit.Burst)
	}
	return bucket
}
