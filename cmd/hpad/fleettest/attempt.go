package fleettest

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
)

// maxDetails is the maximum number of reported violations of a promise.
const maxDetails = 5

// attempt is the contract.TB of one case.
type attempt struct {
	ctx      context.Context
	cleanups []func()
	broken   []string
	// skipped is the reason why the case ended without a result; "" if it has a result.
	skipped string
}

// result returns the outcome of the case.
func (a *attempt) result(name string) *Result {
	switch {
	case len(a.broken) > 0:
		return &Result{name, Broken, a.broken}
	case a.skipped != "":
		return &Result{name, Skipped, []string{a.skipped}}
	}
	return &Result{Promise: name, Outcome: Kept}
}

// within ends the case if a count is outside of the bounds.
func (a *attempt) within(o *Options, n int32) {
	if n < o.Min || n > o.Max {
		a.skipped = needs(n)
		runtime.Goexit()
	}
}

func (a *attempt) cleanUp() {
	for _, do := range slices.Backward(a.cleanups) {
		do()
	}
}

func (a *attempt) Context() context.Context { return a.ctx }

func (a *attempt) Cleanup(do func()) { a.cleanups = append(a.cleanups, do) }

func (a *attempt) Helper() {}

func (a *attempt) Logf(string, ...any) {}

func (a *attempt) Error(arguments ...any) {
	text := strings.TrimSpace(fmt.Sprintln(arguments...))
	if len(a.broken) < maxDetails && !slices.Contains(a.broken, text) {
		a.broken = append(a.broken, text)
	}
}

func (a *attempt) Errorf(format string, arguments ...any) { a.Error(fmt.Sprintf(format, arguments...)) }

func (a *attempt) Fatal(arguments ...any) {
	a.Error(arguments...)
	runtime.Goexit()
}

func (a *attempt) Fatalf(format string, arguments ...any) { a.Fatal(fmt.Sprintf(format, arguments...)) }
