// Package guard starts goroutines whose panics do not end hpad. All other packages start their
// goroutines with it.
package guard

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// Panic is an error that contains a recovered panic.
type Panic struct {
	Value any
	Stack []byte
}

// Error returns the value of the panic as text.
func (p *Panic) Error() string { return fmt.Sprintf("panic: %v", p.Value) }

// Call calls f and returns its error. If f panics, the error is a *Panic.
func Call(f func() error) (err error) {
	defer func() {
		switch value := recover().(type) {
		case nil:
		case *Panic: // from Group.Wait
			err = value
		default:
			err = &Panic{Value: value, Stack: debug.Stack()}
		}
	}()
	return f()
}

var report atomic.Pointer[func(*Panic)]

// OnPanic sets the function that is called with the panics of background goroutines. Without it,
// they are written to the standard error.
func OnPanic(f func(*Panic)) { report.Store(&f) }

// Run calls f and reports its panic. It returns false if f panicked.
func Run(f func()) bool {
	caught, panicked := errors.AsType[*Panic](Call(func() error {
		f()
		return nil
	}))
	if !panicked {
		return true
	}
	if to := report.Load(); to != nil {
		(*to)(caught)
	} else {
		_, _ = fmt.Fprintf(os.Stderr, "%v\n%s", caught, caught.Stack)
	}
	return false
}

const (
	firstPause   = time.Second
	longestPause = time.Minute
)

// Loop calls f, and calls it again after each panic until f returns or ctx ends. The pause before
// the next call grows from 1 second to 1 minute, and starts again after f has run for a minute.
func Loop(ctx context.Context, f func()) {
	pause := firstPause
	for began := time.Now(); !Run(f); began = time.Now() {
		if time.Since(began) > longestPause {
			pause = firstPause
		}
		select {
		case <-time.After(pause):
			pause = min(2*pause, longestPause)
		case <-ctx.Done():
			return
		}
	}
}

// Abandon returns the results of f. When ctx ends first, it returns the cause and f continues alone.
// Use it for bounded work that cannot be canceled. A panic of f is an error, as in [Call].
func Abandon[T any](ctx context.Context, f func() (T, error)) (T, error) {
	type results struct {
		value T
		err   error
	}
	done := make(chan results, 1)
	go func() {
		var r results
		r.err = Call(func() (err error) {
			r.value, err = f()
			return err
		})
		done <- r
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
		var none T
		return none, context.Cause(ctx)
	}
}

// Go calls f in a goroutine. A panic of f is reported.
func Go(f func()) { go Run(f) }

// AfterFunc calls f in a goroutine after a delay, as [time.AfterFunc] does. A panic of f is
// reported.
func AfterFunc(delay time.Duration, f func()) *time.Timer {
	return time.AfterFunc(delay, func() { Run(f) })
}

// Tasks is a [sync.WaitGroup] for background work. Panics are reported. The zero value is ready for
// use.
type Tasks struct{ running sync.WaitGroup }

// Go calls f in a goroutine.
func (t *Tasks) Go(f func()) { t.running.Go(func() { Run(f) }) }

// Wait waits until all goroutines have ended.
func (t *Tasks) Wait() { t.running.Wait() }

// Group is an [errgroup.Group] for the parts of one operation. If a part panics, Wait panics with
// the *Panic, as if its caller had called the part. The zero value is ready for use.
type Group struct {
	group    errgroup.Group
	cancel   context.CancelCauseFunc
	panicked atomic.Pointer[Panic]
}

// WithContext returns a group and a context that is canceled when a part fails or Wait returns.
func WithContext(ctx context.Context) (*Group, context.Context) {
	ctx, cancel := context.WithCancelCause(ctx)
	return &Group{cancel: cancel}, ctx
}

// SetLimit limits the number of active goroutines. It must be called before Go.
func (g *Group) SetLimit(n int) { g.group.SetLimit(n) }

// Go calls f in a goroutine, after waiting until the limit permits it.
func (g *Group) Go(f func() error) {
	g.group.Go(func() error {
		err := Call(f)
		if caught, panicked := errors.AsType[*Panic](err); panicked {
			g.panicked.CompareAndSwap(nil, caught)
		}
		if err != nil && g.cancel != nil {
			g.cancel(err)
		}
		return err
	})
}

// Each calls f for each item, at most limit at once, and returns the results of f by item.
func Each[T any](limit int, items []T, f func(i int, item T) error) []error {
	errs := make([]error, len(items))
	var group Group
	group.SetLimit(limit)
	for i, item := range items {
		group.Go(func() error {
			errs[i] = f(i, item)
			return nil
		})
	}
	_ = group.Wait() // the errors are in errs
	return errs
}

// Wait waits until all parts have ended, and returns the first error.
func (g *Group) Wait() error {
	err := g.group.Wait()
	if g.cancel != nil {
		g.cancel(err)
	}
	if caught := g.panicked.Load(); caught != nil {
		panic(caught)
	}
	return err
}
