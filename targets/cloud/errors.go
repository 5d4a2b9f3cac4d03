package cloud

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
)

// ResponseError is an error response from a platform.
type ResponseError struct {
	// Platform is a name such as "azure".
	Platform string
	// Status is the HTTP status; 0 if the error is the outcome of an operation.
	Status int
	// Code is the platform's error code; may be empty.
	Code    string
	Message string
	// RetryAfter is the pause that the platform requires, or 0.
	RetryAfter time.Duration
}

func (a *ResponseError) Error() string {
	text := a.Platform + " returned"
	if a.Status != 0 {
		text += " " + strconv.Itoa(a.Status)
	}
	if a.Code != "" {
		text += " " + a.Code
	}
	message := OneLine(a.Message)
	if message == "" {
		message = http.StatusText(a.Status)
	}
	return text + ": " + message
}

// longestMessage is the maximum length of a platform's message in bytes.
const longestMessage = 400

// OneLine shortens a text to one line of at most 400 bytes.
func OneLine(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > longestMessage {
		text = strings.ToValidUTF8(text[:longestMessage], "") + " …"
	}
	return text
}

// Mentions reports whether the code equals one of the words, or the message contains one of them,
// ignoring case.
func (a *ResponseError) Mentions(words ...string) bool {
	return slices.ContainsFunc(words, func(word string) bool {
		return strings.EqualFold(a.Code, word) || strings.Contains(strings.ToLower(a.Message), strings.ToLower(word))
	})
}

// The reasons for holds, notices and errors that several platforms share.
const (
	GroupNotFound     = "GroupNotFound"
	NativeAutoscaler  = "NativeAutoscaler"  // the platform's own autoscaler also changes the count
	RolloutInProgress = "RolloutInProgress" // instances are being replaced, and the fleet must wait
	QuotaExceeded     = "QuotaExceeded"     // a quota of the account is reached
	LaunchFailed      = "LaunchFailed"      // instances do not start for another reason
)

// Rule assigns an error class to the responses that it matches. Zero fields match every response.
type Rule struct {
	// Status is the HTTP status; 4 and 5 match all 4xx and 5xx statuses.
	Status int
	// Code is the platform's error code. Words contains the arguments for ResponseError.Mentions.
	Code  string
	Words []string
	// Waits matches a response with a RetryAfter.
	Waits bool

	// Class is an error class of package targets; an ErrUnknownOutcome is also an ErrTransient.
	Class error
	// Reason is the condition reason; the default for an ErrHeld is the code.
	Reason string
}

// StatusRules returns the rules for HTTP statuses with the same meaning on all platforms. The argument
// is the reason for a target that does not exist.
func StatusRules(notFound string) []Rule {
	return []Rule{
		{Status: http.StatusTooManyRequests, Class: targets.ErrThrottled},
		{Status: http.StatusUnauthorized, Class: ErrCredentials},
		{Status: http.StatusForbidden, Class: targets.ErrForbidden},
		{Status: http.StatusNotFound, Class: targets.ErrTargetNotFound, Reason: notFound},
	}
}

func (r *Rule) fits(a *ResponseError) bool {
	return (r.Status == 0 || r.Status == a.Status || r.Status == a.Status/100) &&
		(r.Code == "" || strings.EqualFold(r.Code, a.Code)) &&
		(len(r.Words) == 0 || a.Mentions(r.Words...)) &&
		(!r.Waits || a.RetryAfter > 0)
}

// Classify returns an error with the class of the first matching rule, or an ErrTransient if no
// rule matches.
func (a *ResponseError) Classify(rules ...Rule) error {
	for _, rule := range rules {
		if rule.fits(a) {
			return a.as(rule.Class, rule.Reason)
		}
	}
	return a.as(targets.ErrTransient, "")
}

// ErrCredentials is the ErrForbidden for rejected credentials, which may have been renewed since
// they were read.
var ErrCredentials = fmt.Errorf("%w: the credentials are rejected", targets.ErrForbidden)

// TokenError is an error that occurs while getting credentials, before any call. It does not unwrap
// Err, so that a response to the request for credentials is not mistaken for a response to a call.
type TokenError struct {
	Err error
	// Status is the HTTP status of the response; 0 if there is none.
	Status int
}

func (e *TokenError) Error() string { return "authenticate: " + OneLine(e.Err.Error()) }

// class returns ErrTransient if the server cannot be reached or fails, and otherwise ErrCredentials.
func (e *TokenError) class() error {
	_, network := errors.AsType[net.Error](e.Err)
	switch {
	case e.Status == http.StatusTooManyRequests, e.Status >= http.StatusInternalServerError:
		return targets.ErrTransient
	case e.Status == 0 && (network || errors.Is(e.Err, context.Canceled) || errors.Is(e.Err, context.DeadlineExceeded)),
		e.Status == 0 && strings.Contains(e.Err.Error(), "dial tcp"): // Azure's SDK drops the type of the error
		return targets.ErrTransient
	}
	return ErrCredentials
}

// Errors classifies the errors that calls to one platform return.
type Errors struct {
	// Response returns the platform's response in an error that is no ResponseError, or nil.
	Response func(err error) *ResponseError
	// Read and Write are the rules for error responses to calls of the classes Read and Write.
	Read, Write []Rule
}

// Classify converts the error of a call to an error class of package targets. It does not change
// an error that already has a class.
func (e *Errors) Classify(ctx context.Context, class Class, err error) error {
	if e == nil || err == nil || targets.HasClass(err) {
		return err
	}
	if failed, ok := errors.AsType[*TokenError](err); ok {
		return fmt.Errorf("%w: %w", failed.class(), failed)
	}
	answer, ok := errors.AsType[*ResponseError](err)
	if !ok {
		answer = e.Response(err)
	}
	if answer != nil {
		if class == Write {
			return answer.Classify(e.Write...)
		}
		return answer.Classify(e.Read...)
	}
	err = targets.AsTimeout(ctx, err)
	if class == Write {
		return targets.WithoutResponse(err)
	}
	return fmt.Errorf("%w: %w", targets.ErrTransient, err)
}

func (a *ResponseError) as(class error, reason string) error {
	var err error
	switch {
	case errors.Is(class, targets.ErrHeld):
		return &targets.HeldError{Hold: policy.Hold{Reason: cmp.Or(reason, a.Code), Message: a.Error()}}
	case errors.Is(class, targets.ErrThrottled):
		return &targets.ThrottledError{RetryAfter: a.RetryAfter, Err: a}
	case errors.Is(class, targets.ErrUnknownOutcome):
		return fmt.Errorf("%w: %w", class, targets.WithClass(targets.ErrTransient, a))
	case errors.Is(class, targets.ErrOutOfRange):
		err = &targets.OutOfRangeError{Err: a}
	default:
		err = fmt.Errorf("%w: %w", class, a)
	}
	if reason == "" {
		return err
	}
	return &targets.ReasonError{Reason: reason, Err: err}
}
