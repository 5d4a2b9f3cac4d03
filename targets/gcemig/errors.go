package gcemig

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"cloud.google.com/go/auth"
	"google.golang.org/api/googleapi"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
)

// The reasons of holds, of notices, and of errors of targets that cannot be read
// or scaled.
const (
	// GroupNotFound: there is no such group.
	GroupNotFound = "GroupNotFound"
	// NativeAutoscaler: Compute Engine's own autoscaler sets the group's size.
	NativeAutoscaler = "NativeAutoscaler"
	// RolloutInProgress: a proactive update of the group's instances is under way,
	// and the fleet is configured to wait for it.
	RolloutInProgress = "RolloutInProgress"
	// GroupNotReady: the group is being made, changed or deleted.
	GroupNotReady = "GroupNotReady"
	// GroupInUse: another change of the group is under way.
	GroupInUse = "GroupInUse"
	// ChangeRefused: the platform's rules for the group forbid the change.
	ChangeRefused = "ChangeRefused"
	// QuotaExceeded: the project may have no more of something.
	QuotaExceeded = "QuotaExceeded"
	// OutOfCapacity: the platform has no more machines of the kind.
	OutOfCapacity = "OutOfCapacity"
	// LaunchFailed: machines fail to start for another reason.
	LaunchFailed = "LaunchFailed"
	// ChangeFailed: a change of the size was accepted and failed later.
	ChangeFailed = "ChangeFailed"
)

// reasoned gives an error a condition reason.
func reasoned(reason string, err error) error { return &targets.ReasonError{Reason: reason, Err: err} }

// answerError is an answer of the server that says no.
type answerError struct {
	status  int
	reason  string
	message string
	// after is how long the server asked to wait; 0 when it did not.
	after time.Duration
}

func (e *answerError) Error() string {
	message := strings.Join(strings.Fields(e.message), " ")
	const longest = 400
	if len(message) > longest {
		message = strings.ToValidUTF8(message[:longest], "") + " …"
	}
	if message == "" {
		message = http.StatusText(e.status)
	}
	if e.reason == "" {
		return fmt.Sprintf("compute engine answers %d: %s", e.status, message)
	}
	return fmt.Sprintf("compute engine answers %d %s: %s", e.status, e.reason, message)
}

// answerOf answers what the server said; nil for an error that is no answer.
func answerOf(err error) *answerError {
	var said *googleapi.Error
	if !errors.As(err, &said) {
		return nil
	}
	answer := &answerError{status: said.Code, message: said.Message}
	if len(said.Errors) > 0 {
		answer.reason = said.Errors[0].Reason
		if answer.message == "" {
			answer.message = said.Errors[0].Message
		}
	}
	if answer.message == "" {
		answer.message = said.Body
	}
	if seconds, err := strconv.Atoi(said.Header.Get("Retry-After")); err == nil && seconds > 0 {
		answer.after = time.Duration(seconds) * time.Second
	}
	return answer
}

func (e *answerError) says(part string) bool {
	return strings.Contains(strings.ToLower(e.message), part)
}

// throttles says that the server wants fewer calls. A quota of calls is told apart
// from one of machines by what it counts.
func (e *answerError) throttles() bool {
	switch {
	case e.status == http.StatusTooManyRequests:
		return true
	case e.status != http.StatusForbidden:
		return false
	case strings.EqualFold(e.reason, "rateLimitExceeded"), strings.EqualFold(e.reason, "userRateLimitExceeded"), strings.EqualFold(e.reason, "dailyLimitExceeded"):
		return true
	}
	return strings.EqualFold(e.reason, "quotaExceeded") && (e.says("quota metric") || e.says("per minute") || e.says("quota group"))
}

// tokenError is an answer that says no to who wants to act as another account.
type tokenError struct {
	status  int
	message string
}

func (e *tokenError) Error() string {
	return fmt.Sprintf("the server answers %d: %s", e.status, cmp.Or(e.message, http.StatusText(e.status)))
}

// credentialsError puts an error of getting a token into a class; nil when err is
// of something else.
func credentialsError(err error) error {
	var own *auth.Error
	var acting *tokenError
	var status int
	switch {
	case errors.As(err, &acting):
		status = acting.status
	case errors.As(err, &own) && own.Response != nil:
		status = own.Response.StatusCode
	default:
		return nil
	}
	if status == http.StatusTooManyRequests || status >= http.StatusInternalServerError {
		return fmt.Errorf("%w: get a token: %w", targets.ErrTransient, err)
	}
	return fmt.Errorf("%w: get a token: %w", targets.ErrForbidden, err)
}

// readError puts an error of a read into one of the classes of package targets.
func readError(err error) error {
	if err == nil || targets.Classed(err) {
		return err
	}
	if of := credentialsError(err); of != nil {
		return of
	}
	answer := answerOf(err)
	switch {
	case answer == nil:
		return fmt.Errorf("%w: %w", targets.ErrTransient, err)
	case answer.throttles():
		return &targets.ThrottledError{RetryAfter: answer.after, Err: answer}
	case answer.status == http.StatusForbidden || answer.status == http.StatusUnauthorized:
		return fmt.Errorf("%w: %w", targets.ErrForbidden, answer)
	case answer.status == http.StatusNotFound:
		return fmt.Errorf("%w: %w", targets.ErrTargetNotFound, answer)
	}
	return fmt.Errorf("%w: %w", targets.ErrTransient, answer)
}

// writeError puts an error of a change into one of the classes of package targets,
// and says so where it leaves open what became of it.
func writeError(err error) error {
	if err == nil || targets.Classed(err) {
		return err
	}
	if of := credentialsError(err); of != nil {
		return of
	}
	answer := answerOf(err)
	if answer == nil {
		return targets.Undelivered(err)
	}
	return answer.refusal()
}

// refusal is the class of an answer to a change.
func (e *answerError) refusal() error {
	held := func(reason string) error {
		return &targets.HeldError{Hold: policy.Hold{Reason: reason, Message: e.Error()}}
	}
	switch {
	case e.throttles():
		return &targets.ThrottledError{RetryAfter: e.after, Err: e}
	case strings.EqualFold(e.reason, "quotaExceeded"):
		return reasoned(QuotaExceeded, &targets.OutOfRangeError{Err: e})
	case e.status == http.StatusForbidden || e.status == http.StatusUnauthorized:
		return fmt.Errorf("%w: %w", targets.ErrForbidden, e)
	case e.status == http.StatusNotFound:
		return reasoned(GroupNotFound, fmt.Errorf("%w: %w", targets.ErrTargetNotFound, e))
	case e.says("autoscale"): // 412 for a group that has an autoscaler
		return held(NativeAutoscaler)
	case e.status == http.StatusPreconditionFailed && e.says("fingerprint"):
		return fmt.Errorf("%w: %w", targets.ErrConflict, e)
	case e.status == http.StatusPreconditionFailed:
		return held(ChangeRefused)
	case strings.EqualFold(e.reason, "resourceNotReady"):
		return held(GroupNotReady)
	case e.status == http.StatusConflict, strings.HasPrefix(strings.ToLower(e.reason), "resourceinuse"):
		return held(GroupInUse)
	case e.status == http.StatusBadRequest && (e.says("'size'") || e.says("targetsize") || e.says("target size")):
		return &targets.OutOfRangeError{Err: e}
	case e.status < http.StatusInternalServerError:
		return fmt.Errorf("%w: %w", targets.ErrTransient, e)
	}
	// A server's own error, or a proxy's, may come after the change was taken.
	return fmt.Errorf("%w: %w: %w", targets.ErrUnknownOutcome, targets.ErrTransient, e)
}

// decided is the class of the answer to a change that is over.
func (e *answerError) decided() error {
	if e.status >= http.StatusInternalServerError && !e.throttles() {
		return fmt.Errorf("%w: %w", targets.ErrTransient, e)
	}
	return e.refusal()
}

// passing says that the same call may do better at once: a server's own trouble, a
// connection that broke.
func passing(err error) bool {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, errTimeout) || targets.Classed(err) || credentialsError(err) != nil {
		return false
	}
	answer := answerOf(err)
	return answer == nil || answer.status >= http.StatusInternalServerError
}

// launchReason answers the reason of a notice for an error code of a machine that
// does not start.
func launchReason(code string) string {
	switch code = strings.ToUpper(code); {
	case strings.Contains(code, "QUOTA"), strings.Contains(code, "LIMIT_EXCEEDED"):
		return QuotaExceeded
	case strings.Contains(code, "POOL_EXHAUSTED"), strings.Contains(code, "STOCKOUT"), strings.Contains(code, "RESOURCE_NOT_AVAILABLE"), strings.Contains(code, "IP_SPACE_EXHAUSTED"):
		return OutOfCapacity
	}
	return LaunchFailed
}
