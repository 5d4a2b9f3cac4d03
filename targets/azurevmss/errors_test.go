package azurevmss

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"

	"github.com/hpad/hpad/targets"
	platform "github.com/hpad/hpad/targets/cloud"
)

// refusal returns an error as the SDK hands it over.
func refusal(status int, body string, header ...string) error {
	response := &http.Response{
		StatusCode: status, Status: http.StatusText(status), Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body)),
		Request: &http.Request{Method: http.MethodPatch, URL: &url.URL{Scheme: "https", Host: "management.azure.com"}},
	}
	for i := 0; i+1 < len(header); i += 2 {
		response.Header.Set(header[i], header[i+1])
	}
	return runtime.NewResponseError(response)
}

func coded(code, message string) string {
	return `{"error":{"code":"` + code + `","message":"` + message + `"}}`
}

// TestErrors puts what Azure says into classes, of reads and of writes.
func TestErrors(t *testing.T) {
	dial := &url.Error{Op: "Patch", URL: "https://x", Err: &net.OpError{Op: "dial", Err: errors.New("connection refused")}}
	cut := &url.Error{Op: "Patch", URL: "https://x", Err: io.ErrUnexpectedEOF}
	for _, test := range []struct {
		name        string
		err         error
		read, write error
		// reason is the write's, unknown whether its outcome is not known.
		reason  string
		unknown bool
		// says is part of the write's error.
		says string
	}{
		{
			name: "no authorization", err: refusal(403, coded("AuthorizationFailed", "does not have authorization to perform action 'Microsoft.Compute/virtualMachineScaleSets/write'")),
			read: targets.ErrForbidden, write: targets.ErrForbidden, says: "Microsoft.Compute/virtualMachineScaleSets/write",
		},
		{name: "expired token", err: refusal(401, coded("ExpiredAuthenticationToken", "expired")), read: targets.ErrForbidden, write: targets.ErrForbidden},
		{name: "no set", err: refusal(404, coded("ResourceNotFound", "was not found")), read: targets.ErrTargetNotFound, write: targets.ErrTargetNotFound, reason: ScaleSetNotFound},
		{name: "no group", err: refusal(404, coded("ResourceGroupNotFound", "was not found")), read: targets.ErrTargetNotFound, write: targets.ErrTargetNotFound, reason: ScaleSetNotFound},
		{name: "no subscription", err: refusal(404, coded("SubscriptionNotFound", "not found")), read: targets.ErrForbidden, write: targets.ErrForbidden},
		{name: "too many", err: refusal(429, coded("OperationNotAllowed", "too many requests"), "Retry-After", "17"), read: targets.ErrThrottled, write: targets.ErrThrottled},
		{name: "overloaded", err: refusal(503, coded("ServerBusy", "busy"), "Retry-After", "5"), read: targets.ErrThrottled, write: targets.ErrThrottled},
		{name: "unavailable", err: refusal(503, ""), read: targets.ErrTransient, write: targets.ErrTransient, unknown: true},
		{name: "server's own error", err: refusal(500, coded("InternalServerError", "oops")), read: targets.ErrTransient, write: targets.ErrTransient, unknown: true},
		{name: "proxy's page", err: refusal(502, "<html>Bad Gateway</html>"), read: targets.ErrTransient, write: targets.ErrTransient, unknown: true},
		{name: "other ETag", err: refusal(412, coded("ConditionNotMet", "If-Match")), read: targets.ErrTransient, write: targets.ErrConflict},
		{
			name: "marked for deletion", err: refusal(409, coded("OperationNotAllowed", "since the VM Scale Set is marked for deletion.")),
			read: targets.ErrTransient, write: targets.ErrTargetNotFound, reason: ScaleSetDeleting,
		},
		{name: "conflict", err: refusal(409, coded("Conflict", "conflict with a concurrent request")), read: targets.ErrTransient, write: targets.ErrHeld, reason: ConcurrentRequest},
		{name: "not allowed", err: refusal(409, coded("OperationNotAllowed", "in this state")), read: targets.ErrTransient, write: targets.ErrHeld, reason: OperationNotAllowed},
		{
			name: "quota", err: refusal(409, coded("OperationNotAllowed", "Operation could not be completed as it results in exceeding approved Total Regional Cores quota.")),
			read: targets.ErrTransient, write: targets.ErrHeld, reason: QuotaExceeded, says: "Total Regional Cores",
		},
		{
			name: "quota inside of details", err: refusal(400, `{"error":{"code":"InvalidTemplateDeployment","message":"see details","details":[{"code":"QuotaExceeded","message":"Family quota"}]}}`),
			read: targets.ErrTransient, write: targets.ErrHeld, reason: QuotaExceeded, says: "Family quota",
		},
		{name: "shortage", err: refusal(409, coded("SkuNotAvailable", "not available in this region")), read: targets.ErrTransient, write: targets.ErrHeld, reason: "SkuNotAvailable"},
		{name: "models", err: refusal(409, coded("OperationNotAllowed", "has reached its limit of 10 models that may be referenced")), read: targets.ErrTransient, write: targets.ErrHeld, reason: "ModelLimitReached"},
		{name: "beyond the bounds", err: refusal(400, coded("InvalidParameter", "singlePlacementGroup has at most 100")), read: targets.ErrTransient, write: targets.ErrOutOfRange},
		{name: "other mistake", err: refusal(400, coded("InvalidParameter", "sku.name")), read: targets.ErrTransient, write: targets.ErrTransient},
		{name: "no connection", err: dial, read: targets.ErrTransient, write: targets.ErrTransient},
		{name: "cut connection", err: cut, read: targets.ErrTransient, write: targets.ErrTransient, unknown: true},
		{name: "deadline", err: context.DeadlineExceeded, read: targets.ErrTransient, write: targets.ErrTransient, unknown: true},
		{name: "limiter's refusal", err: &targets.ThrottledError{Err: errors.New("own limit")}, read: targets.ErrThrottled, write: targets.ErrThrottled},
		{name: "no token", err: &tokenError{err: errors.New("no credential is configured")}, read: targets.ErrForbidden, write: targets.ErrForbidden},
		{name: "token's server is away", err: &tokenError{err: dial}, read: targets.ErrTransient, write: targets.ErrTransient},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := errorClasses.Classify(t.Context(), platform.Read, test.err); !errors.Is(got, test.read) {
				t.Errorf("a read: %v, want %v", got, test.read)
			}
			got := errorClasses.Classify(t.Context(), platform.Write, test.err)
			if !errors.Is(got, test.write) || errors.Is(got, targets.ErrUnknownOutcome) != test.unknown {
				t.Fatalf("a write: %v, want %v, with an unknown outcome: %t", got, test.write, test.unknown)
			}
			reason := targets.Reason(got)
			if held, ok := errors.AsType[*targets.HeldError](got); ok {
				reason = held.Hold.Reason
			}
			if reason != test.reason || !strings.Contains(got.Error(), test.says) || strings.Contains(got.Error(), "\n") {
				t.Errorf("a write: %q with reason %q, want %q and %q in one line", got, reason, test.reason, test.says)
			}
		})
	}
	throttled, ok := errors.AsType[*targets.ThrottledError](errorClasses.Classify(t.Context(), platform.Read, refusal(429, "", "Retry-After", "17")))
	if !ok || throttled.RetryAfter != 17*time.Second {
		t.Errorf("throttled as %+v, want 17s", throttled)
	}
}
