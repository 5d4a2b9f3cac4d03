package gcemig

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/targettest"
	"github.com/hpad/hpad/test/gce/gcetest"
)

const (
	resizeMethod = "compute.instanceGroupManagers.resize"
	getMethod    = "compute.instanceGroupManagers.get"
	web          = "zones/us-east1-b/web"
)

// startWeb returns a server with one group of so many instances, and a fleet of it.
func startWeb(t testing.TB, size int, change ...func(g *gcetest.Group)) (*gcetest.Server, *Fleet) {
	t.Helper()
	server := gcetest.Start(t)
	group := gcetest.Group{Zone: "us-east1-b", Name: "web", Size: size}
	for _, c := range change {
		c(&group)
	}
	server.Add(group)
	return server, openFleet(t, testConfig(t, server), &targettest.Store{})
}

func read(t testing.TB, f *Fleet, name string) targets.Reading {
	t.Helper()
	readings, err := f.Snapshot(t.Context(), []targets.Ref{ref(name)})
	if err != nil {
		t.Fatal(err)
	}
	reading := readings[ref(name)]
	if reading.Err != nil {
		t.Fatal(reading.Err)
	}
	return reading
}

// TestRefusals gives every refusal its class.
func TestRefusals(t *testing.T) {
	const autoscaled = "Resizing of autoscaled regional managed instance groups is not allowed. If you want to manually adjust target size remove the autoscaler or set autoscaling policy mode to OFF."
	for name, c := range map[string]struct {
		fault gcetest.Fault
		// read and write are the classes of a reading and of a change.
		read, write error
		// reason is that of the change's hold or error.
		reason string
		words  string
	}{
		"not found":            {gcetest.Fault{Status: 404, Reason: "notFound", Message: "The resource 'x' was not found"}, targets.ErrTargetNotFound, targets.ErrTargetNotFound, GroupNotFound, "was not found"},
		"rate limit":           {gcetest.Fault{Status: 403, Reason: "rateLimitExceeded", Message: "Rate Limit Exceeded"}, targets.ErrThrottled, targets.ErrThrottled, "", "Rate Limit Exceeded"},
		"too many requests":    {gcetest.Fault{Status: 429, Reason: "rateLimitExceeded", Message: "Slow down", RetryAfter: 7 * time.Second}, targets.ErrThrottled, targets.ErrThrottled, "", "Slow down"},
		"quota of calls":       {gcetest.Fault{Status: 403, Reason: "quotaExceeded", Message: "Quota exceeded for quota metric 'Queries' and limit 'Queries per minute'"}, targets.ErrThrottled, targets.ErrThrottled, "", "Queries"},
		"quota of machines":    {gcetest.Fault{Status: 403, Reason: "quotaExceeded", Message: "Quota 'INSTANCES' exceeded. Limit: 24.0 in region us-east1."}, targets.ErrForbidden, targets.ErrOutOfRange, QuotaExceeded, "24.0"},
		"forbidden":            {gcetest.Fault{Status: 403, Reason: "forbidden", Message: "Required 'compute.instanceGroupManagers.update' permission"}, targets.ErrForbidden, targets.ErrForbidden, "", "compute.instanceGroupManagers.update"},
		"api not enabled":      {gcetest.Fault{Status: 403, Reason: "accessNotConfigured", Message: "Compute Engine API has not been used"}, targets.ErrForbidden, targets.ErrForbidden, "", "has not been used"},
		"bad token":            {gcetest.Fault{Status: 401, Reason: "authError", Message: "Invalid Credentials"}, targets.ErrForbidden, targets.ErrForbidden, "", "Invalid Credentials"},
		"autoscaled":           {gcetest.Fault{Status: 412, Reason: "conditionNotMet", Message: autoscaled}, targets.ErrTransient, targets.ErrHeld, NativeAutoscaler, "mode to OFF"},
		"stale fingerprint":    {gcetest.Fault{Status: 412, Reason: "conditionNotMet", Message: "Invalid fingerprint."}, targets.ErrTransient, targets.ErrConflict, "", "fingerprint"},
		"other condition":      {gcetest.Fault{Status: 412, Reason: "conditionNotMet", Message: "Nope."}, targets.ErrTransient, targets.ErrHeld, ChangeRefused, "Nope."},
		"not ready":            {gcetest.Fault{Status: 400, Reason: "resourceNotReady", Message: "The resource 'x' is not ready"}, targets.ErrTransient, targets.ErrHeld, GroupNotReady, "is not ready"},
		"in use":               {gcetest.Fault{Status: 400, Reason: "resourceInUseByAnotherResource", Message: "in use"}, targets.ErrTransient, targets.ErrHeld, GroupInUse, "in use"},
		"conflict":             {gcetest.Fault{Status: 409, Reason: "alreadyExists", Message: "another operation"}, targets.ErrTransient, targets.ErrHeld, GroupInUse, "another operation"},
		"size out of range":    {gcetest.Fault{Status: 400, Reason: "invalid", Message: "Invalid value for field 'size': '5000'. Must be less than or equal to 1000"}, targets.ErrTransient, targets.ErrOutOfRange, "", "1000"},
		"bad request":          {gcetest.Fault{Status: 400, Reason: "badRequest", Message: "what?"}, targets.ErrTransient, targets.ErrTransient, "", "what?"},
		"server's own":         {gcetest.Fault{Status: 500, Reason: "backendError", Message: "Internal error"}, targets.ErrTransient, targets.ErrUnknownOutcome, "", "Internal error"},
		"unavailable":          {gcetest.Fault{Status: 503, Reason: "backendError", Message: "Try again"}, targets.ErrTransient, targets.ErrUnknownOutcome, "", "Try again"},
		"a proxy's":            {gcetest.Fault{Status: 502}, targets.ErrTransient, targets.ErrUnknownOutcome, "", "502"},
		"connection cut":       {gcetest.Fault{Drop: true}, targets.ErrTransient, targets.ErrUnknownOutcome, "", "EOF"},
		"half of the answer":   {gcetest.Fault{Truncate: true}, targets.ErrTransient, targets.ErrUnknownOutcome, "", "EOF"},
		"answer that got lost": {gcetest.Fault{Lose: true}, targets.ErrTransient, targets.ErrUnknownOutcome, "", "EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, f := startWeb(t, 2)
			version := read(t, f, web).Version
			refuse := func(method string, call func() error, class error) error {
				fault := c.fault
				fault.Method = method
				remove := server.Inject(fault)
				defer remove()
				err := call()
				if !errors.Is(err, class) {
					t.Errorf("%s: %v, want %v", method, err, class)
				}
				if err != nil && !strings.Contains(err.Error(), c.words) {
					t.Errorf("%s: %v does not tell %q", method, err, c.words)
				}
				return err
			}
			scale := func() error { return f.SetReplicas(t.Context(), ref(web), 3, version, "test") }
			err := refuse(resizeMethod, scale, c.write)
			reason := targets.Reason(err)
			if held, ok := errors.AsType[*targets.HeldError](err); ok {
				reason = held.Hold.Reason
			}
			if reason != c.reason {
				t.Errorf("reason %q, want %q", reason, c.reason)
			}
			if throttled, ok := errors.AsType[*targets.ThrottledError](err); ok {
				if throttled.RetryAfter != c.fault.RetryAfter {
					t.Errorf("retry after %v, want %v", throttled.RetryAfter, c.fault.RetryAfter)
				}
				return // The whole fleet waits now.
			}
			_ = refuse("compute.instanceGroupManagers.aggregatedList", func() error {
				_, err := f.Snapshot(t.Context(), []targets.Ref{ref(web)})
				return err
			}, c.read)
		})
	}
}

// TestCredentialsRefused: without a token nothing is called, and the error says that
// it is about the token.
func TestCredentialsRefused(t *testing.T) {
	server, f := startWeb(t, 1)
	server.ExpireCredentials(true)
	_, err := f.Snapshot(t.Context(), []targets.Ref{ref(web)})
	if !errors.Is(err, targets.ErrForbidden) || !strings.Contains(err.Error(), "get a token") {
		t.Errorf("Snapshot() without credentials = %v, want ErrForbidden and why", err)
	}
	if err := f.SetReplicas(t.Context(), ref(web), 2, "", "test"); !errors.Is(err, targets.ErrForbidden) {
		t.Errorf("SetReplicas() without credentials = %v, want ErrForbidden", err)
	}
	server.ExpireCredentials(false)
	if got := read(t, f, web).SpecReplicas; got != 1 {
		t.Errorf("%d replicas once the credentials are back, want 1", got)
	}
	// A token that is refused in the middle of its life is given up.
	server.ExpireCredentials(true)
	server.ExpireCredentials(false)
	if _, err := f.Snapshot(t.Context(), []targets.Ref{ref(web)}); !errors.Is(err, targets.ErrForbidden) {
		t.Errorf("Snapshot() with an old token = %v, want ErrForbidden", err)
	}
	if got := read(t, f, web).SpecReplicas; got != 1 {
		t.Errorf("%d replicas with another token, want 1", got)
	}
}

// TestTimeout: a call that takes too long is no deadline of the caller.
func TestTimeout(t *testing.T) {
	server, f := startWeb(t, 1)
	read(t, f, web) // which needs a token first
	f.Limiter.Timeout = 500 * time.Millisecond
	server.Inject(gcetest.Fault{Method: "compute.instanceGroupManagers.aggregatedList", Hang: true})
	_, err := f.Snapshot(t.Context(), []targets.Ref{ref(web)})
	if !errors.Is(err, targets.ErrTransient) || errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "no answer within") {
		t.Errorf("Snapshot() without an answer = %v, want ErrTransient and the fleet's timeout", err)
	}
}

// TestOperationFails: a change that is accepted and fails at once is refused.
func TestOperationFails(t *testing.T) {
	server, f := startWeb(t, 2)
	version := read(t, f, web).Version
	server.FailResizes(t, web, "QUOTA_EXCEEDED", "Quota 'CPUS' exceeded.  Limit: 24.0 in region us-east1.")
	err := f.SetReplicas(t.Context(), ref(web), 5, version, "test")
	if !errors.Is(err, targets.ErrOutOfRange) || targets.Reason(err) != QuotaExceeded || !strings.Contains(err.Error(), "CPUS") {
		t.Errorf("SetReplicas() that fails = %v, want ErrOutOfRange with reason %s", err, QuotaExceeded)
	}
}
