package cloud

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/hpad/hpad/targets"
)

// Accounts are those of platforms that the fleets of a process call. What a platform
// counts together, as the calls of one account and region, is limited together here,
// however many fleets make the calls; and where the platform refuses a call as one
// too many, all of them leave it alone. The zero value has none yet. It is safe for
// concurrent use.
//
// An account is kept as long as a fleet calls it, and then until its buckets are full
// again, so that neither a reload nor a fleet that is taken away and put back is a way
// around its limits.
type Accounts struct {
	mu sync.Mutex
	// callers are the accounts by who calls them, known those whose names are known.
	callers, known map[string]*account
}

// Limiter answers a limiter for the calls of a fleet. Caller is who the platform takes
// the fleet for, as far as that is known without asking it: fleets of the same caller
// are limited together from the first call on, others once [Limiter.CountWith] tells
// that they should be. The limits in force are the smallest of all fleets of an
// account. A nil meter counts nothing, and nil Accounts give the fleet an account of
// its own.
func (a *Accounts) Limiter(caller string, limits Limits, meter targets.Meter) *Limiter {
	if a == nil {
		a = &Accounts{}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sweep()
	found := a.callers[caller]
	if found == nil {
		found = a.open("", caller)
	}
	l := &Limiter{accounts: a, caller: caller, limits: limits, meter: meter}
	found.take(l)
	return l
}

// open makes an account of a caller. The caller holds the lock.
func (a *Accounts) open(name, caller string) *account {
	made := &account{name: name, users: map[*Limiter]bool{}, shared: map[Class]*rate.Limiter{}, own: map[targetClass]*rate.Limiter{}, sweepAt: smallestSweep}
	if a.callers == nil {
		a.callers, a.known = map[string]*account{}, map[string]*account{}
	}
	a.callers[caller] = made
	if name != "" {
		a.known[name] = made
	}
	return made
}

// countWith makes the calls of a caller count with those of the account of that name.
func (a *Accounts) countWith(l *Limiter, name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	from, to := l.account.Load(), a.known[name]
	switch {
	case !from.users[l], from.name == name: // it was closed meanwhile, or is there already
		return
	case to == nil && from.name == "":
		from.name = name
		a.known[name] = from
		return
	case to == nil:
		to = a.open(name, l.caller)
	}
	a.callers[l.caller] = to
	for user := range maps.Clone(from.users) {
		if user.caller == l.caller {
			from.leave(user)
			to.take(user)
		}
	}
	if from.name == "" {
		to.charge(from)
	}
	a.sweep()
}

// close ends the use of an account.
func (a *Accounts) close(l *Limiter) {
	a.mu.Lock()
	defer a.mu.Unlock()
	l.account.Load().leave(l)
	a.sweep()
}

// sweep drops the accounts that nobody uses and that are as new ones would be. The
// caller holds the lock.
func (a *Accounts) sweep() {
	now := time.Now()
	drop := func(_ string, old *account) bool { return len(old.users) == 0 && old.idle(now) }
	maps.DeleteFunc(a.callers, drop)
	maps.DeleteFunc(a.known, drop)
}

// account is what a platform counts together.
type account struct {
	// name and users are guarded by the lock of Accounts. The name is empty while it
	// is not known.
	name  string
	users map[*Limiter]bool

	mu      sync.Mutex
	limits  Limits
	shared  map[Class]*rate.Limiter
	own     map[targetClass]*rate.Limiter
	sweepAt int
	refused error
	wait    time.Duration
	until   time.Time
}

type targetClass struct {
	target string
	class  Class
}

// smallestSweep is how many buckets of targets there are before those that nobody
// uses are dropped.
const smallestSweep = 1024

// take makes a fleet use the account. The caller holds the lock of Accounts.
func (a *account) take(l *Limiter) {
	a.users[l] = true
	a.restrict()
	l.account.Store(a)
}

// leave makes a fleet use it no more. The caller holds the lock of Accounts.
func (a *account) leave(l *Limiter) {
	delete(a.users, l)
	if len(a.users) > 0 {
		a.restrict()
	}
}

// restrict puts the smallest limits of all fleets in force.
func (a *account) restrict() {
	limits := Limits{Calls: map[Class]Limit{}, TargetCalls: map[Class]Limit{}}
	for user := range a.users {
		least(limits.Calls, user.limits.Calls)
		least(limits.TargetCalls, user.limits.TargetCalls)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.limits = limits
	for class, limit := range limits.Calls {
		if bucket := a.shared[class]; bucket != nil {
			limit.apply(bucket)
		} else {
			a.shared[class] = limit.bucket()
		}
	}
	for key, bucket := range a.own {
		if limit, ok := limits.TargetCalls[key.class]; ok {
			limit.apply(bucket)
		}
	}
}

// least lowers limits to others.
func least(limits, others map[Class]Limit) {
	for class, other := range others {
		if limit, ok := limits[class]; ok {
			other = Limit{PerSecond: min(limit.PerSecond, other.PerSecond), Burst: min(limit.Burst, other.Burst)}
		}
		limits[class] = other
	}
}

func (l Limit) bucket() *rate.Limiter { return rate.NewLimiter(rate.Limit(l.PerSecond), l.Burst) }

// apply gives a bucket another limit; what is in it stays.
func (l Limit) apply(bucket *rate.Limiter) {
	if bucket.Limit() != rate.Limit(l.PerSecond) {
		bucket.SetLimit(rate.Limit(l.PerSecond))
	}
	if bucket.Burst() != l.Burst {
		bucket.SetBurst(l.Burst)
	}
}

// charge takes over what was spent of an account that turned out to be this one, and
// what was refused there.
func (a *account) charge(from *account) {
	from.mu.Lock()
	defer from.mu.Unlock()
	a.mu.Lock()
	defer a.mu.Unlock()
	for class, bucket := range from.shared {
		if into := a.shared[class]; into != nil {
			spent := int(float64(bucket.Burst()) - bucket.Tokens())
			into.ReserveN(time.Now(), min(spent, into.Burst()))
		}
	}
	if from.until.After(a.until) {
		a.refused, a.wait, a.until = from.refused, from.wait, from.until
	}
}

// idle says that the account is as a new one would be.
func (a *account) idle(now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, bucket := range a.shared {
		if !full(bucket) {
			return false
		}
	}
	for _, bucket := range a.own {
		if !full(bucket) {
			return false
		}
	}
	return !now.Before(a.until)
}

func full(bucket *rate.Limiter) bool { return bucket.Tokens() >= float64(bucket.Burst()) }

// refusal answers the error that any call would get now because the platform wants to
// be left alone; nil when calls may be made.
func (a *account) refusal(now time.Time) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !now.Before(a.until) {
		return nil
	}
	return &targets.ThrottledError{
		RetryAfter: a.until.Sub(now).Round(time.Millisecond),
		Err:        fmt.Errorf("waiting after: %w", a.refused),
	}
}

// bucket answers that of a class; nil where it has no limit.
func (a *account) bucket(class Class) *rate.Limiter {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.shared[class]
}

// buckets answers those of a call.
func (a *account) buckets(c Call) []*rate.Limiter {
	a.mu.Lock()
	defer a.mu.Unlock()
	var found []*rate.Limiter
	if limit, ok := a.limits.TargetCalls[c.Class]; ok && c.Target != "" {
		found = append(found, a.targetBucket(targetClass{target: c.Target, class: c.Class}, limit))
	}
	if bucket := a.shared[c.Class]; bucket != nil {
		found = append(found, bucket)
	}
	return found
}

// targetBucket answers that of a target. The caller holds the lock.
func (a *account) targetBucket(key targetClass, limit Limit) *rate.Limiter {
	bucket := a.own[key]
	if bucket == nil {
		if len(a.own) >= a.sweepAt {
			maps.DeleteFunc(a.own, func(_ targetClass, idle *rate.Limiter) bool { return full(idle) }) // a new one would be the same
			a.sweepAt = max(smallestSweep, 2*len(a.own))
		}
		bucket = limit.bucket()
		a.own[key] = bucket
	}
	return bucket
}

// How long an account is left alone after a refusal for too many calls: the first
// wait, doubled with each further refusal, up to the longest, less up to half of it at
// random. It is longer where the platform asks for that, up to the longest that is
// believed.
const (
	firstWait    = time.Second
	longestWait  = 20 * time.Second
	believedWait = time.Hour
)

// note remembers what a call answered that began then.
func (a *account) note(err error, begun, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	throttled, ok := errors.AsType[*targets.ThrottledError](err)
	if !ok {
		if err == nil && !begun.Before(a.until) {
			a.refused, a.wait, a.until = nil, 0, time.Time{}
		}
		return
	}
	wait := min(throttled.RetryAfter, believedWait)
	if !now.Before(a.until) { // else it is one of several calls of the same time
		a.wait = min(max(firstWait, 2*a.wait), longestWait)
		wait = max(wait, a.wait-time.Duration(rand.Float64()*float64(a.wait)/2))
	}
	a.refused = throttled.Err
	if until := now.Add(wait); until.After(a.until) {
		a.until = until
	}
}
