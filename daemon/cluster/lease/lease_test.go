package lease

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

const ttl = 30 * time.Second

// TestKeep checks when Keep calls renew after successful and failed renewals, and that the lease
// ends after ErrOver.
func TestKeep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		l := New(Now(), ttl)
		lost := errors.New("no response")
		answers := []error{nil, lost, lost, nil, fmt.Errorf("renew: %w", ErrOver)}
		var told []string
		l.Keep(ttl, func(ctx context.Context, lost bool) error {
			deadline, _ := ctx.Deadline()
			told = append(told, fmt.Sprint(time.Since(began), time.Until(deadline), lost))
			answer := answers[0]
			if answers = answers[1:]; answer == nil {
				l.Renewed(Now(), ttl)
			}
			return answer
		})
		want := []string{"10s 10s false", "20s 10s false", "23s 10s true", "26s 10s true", "36s 10s false"}
		if fmt.Sprint(told) != fmt.Sprint(want) {
			t.Errorf("time, timeout and loss of each renewal =\n%q, want\n%q", told, want)
		}
		if got := l.Expires().Sub(began); got != 26*time.Second+ttl {
			t.Errorf("Expires() = %s after the start", got)
		}
		if !l.IsOver() || l.Leave() {
			t.Error("the lease is not over after ErrOver")
		}
	})
}

func TestLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(Now(), ttl)
		kept := make(chan struct{})
		go func() {
			defer close(kept)
			l.Keep(ttl, func(ctx context.Context, _ bool) error {
				<-ctx.Done()
				return ctx.Err()
			})
		}()
		time.Sleep(ttl/3 + 1)
		for range 2 { // Leave is repeated after an error
			if !l.Leave() {
				t.Error("Leave reports that the lease had already ended")
			}
		}
		began := time.Now()
		<-kept
		if took := time.Since(began); took > 0 {
			t.Errorf("the renewal continued for %s", took)
		}
		select {
		case <-l.Ended():
			t.Error("the lease ended before the store reported it")
		default:
		}
		l.End()
		l.End()
		<-l.Ended()
	})
}

// TestSuspended checks that the time for which the host is suspended shortens the rest of the
// lease.
func TestSuspended(t *testing.T) {
	slept, host := time.Duration(0), asleep
	asleep = func() time.Duration { return slept }
	defer func() { asleep = host }()
	l := New(Now(), ttl)
	slept = ttl - time.Second
	if left := time.Until(l.Expires()); left > time.Second || l.IsOver() {
		t.Errorf("%s of a lease of %s remain after a suspension of %s", left, ttl, slept)
	}
	l.Renewed(Now(), ttl)
	if left := time.Until(l.Expires()); left < ttl-time.Second {
		t.Errorf("%s remain after a renewal", left)
	}
	slept += ttl
	if !l.IsOver() {
		t.Errorf("a lease of %s is not over after a suspension of the same length", ttl)
	}
	slept, asleep = 0, host
	if before := asleep(); asleep()-before >= shortestSleep {
		t.Error("the host seems to be suspended while the test runs")
	}
}
