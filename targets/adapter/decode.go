package adapter

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
)

const (
	// MaxResponse is the maximum size of a response, in bytes.
	MaxResponse = 16 << 20
	// maxExcerpt is the maximum number of bytes of a response in an error.
	maxExcerpt = 100
)

// Decode parses a response, and rejects unknown fields. An error contains the field and the first
// bytes of the response.
func Decode(text []byte) (*Response, error) {
	var response Response
	if err := decode(text, &response); err != nil {
		return nil, err
	}
	return &response, nil
}

func decode(text []byte, into any) error {
	err := json.Unmarshal(text, into, json.RejectUnknownMembers(true))
	if err == nil {
		return nil
	}
	at, ok := errors.AsType[*json.SemanticError](err)
	switch {
	case !ok:
		return invalid(text, "%s", strings.TrimPrefix(err.Error(), "jsontext: "))
	case errors.Is(err, json.ErrUnknownName):
		return invalid(text, "unknown field %q", at.JSONPointer)
	}
	return invalid(text, "field %q must not be a JSON %v", at.JSONPointer, at.JSONKind)
}

// invalid returns the error for an invalid response, which ends with the first bytes of the
// response.
func invalid(text []byte, format string, arguments ...any) error {
	return targets.WithClass(targets.ErrTransient, fmt.Errorf("invalid response: %s; it begins with %s", fmt.Sprintf(format, arguments...), Excerpt(text)))
}

// Excerpt returns the first bytes of a text in quotes: at most 100 bytes.
func Excerpt(text []byte) string {
	end := ""
	if len(text) > maxExcerpt {
		text, end = text[:maxExcerpt], "…"
	}
	return fmt.Sprintf("%q%s", strings.ToValidUTF8(string(text), ""), end)
}

// asError converts an error from an adapter to an error with a class. The argument write reports
// whether it is the error of a change.
func (e *Error) asError(write bool) error {
	err := e.classified(errors.New(phraseOr(e.Message, noCause)), write)
	if e.Reason != "" && e.Code != Held {
		return &targets.ReasonError{Reason: e.Reason, Err: err}
	}
	return err
}

func (e *Error) classified(cause error, write bool) error {
	switch e.Code {
	case Held:
		return &targets.HeldError{Hold: policy.Hold{Reason: cmp.Or(e.Reason, defaultHold), Message: cause.Error()}}
	case OutOfRange:
		return &targets.OutOfRangeError{Min: e.Min, Max: e.Max, Err: cause}
	case Partial:
		return &targets.PartialError{Reached: *e.Reached, Err: fmt.Errorf("%w: %w", targets.ErrTransient, cause)}
	case Throttled:
		return &targets.ThrottledError{RetryAfter: time.Duration(e.RetryAfter * float64(time.Second)), Err: cause}
	case Failed:
		if write {
			return targets.WithoutResponse(cause)
		}
	}
	return fmt.Errorf("%w: %w", classes[e.Code], cause)
}

// defaultHold is the reason of a hold without a reason.
const defaultHold = "AdapterHold"

var classes = map[ErrorCode]error{
	NotFound: targets.ErrTargetNotFound, Conflict: targets.ErrConflict, Held: targets.ErrHeld, OutOfRange: targets.ErrOutOfRange,
	Partial: targets.ErrTransient, Throttled: targets.ErrThrottled, Forbidden: targets.ErrForbidden,
	Unscalable: targets.ErrUnscalable, Unavailable: targets.ErrTransient, Failed: targets.ErrTransient,
}

// check describes the first invalid field of an error; "" if all are valid.
func (e *Error) check() string {
	switch {
	case classes[e.Code] == nil:
		return fmt.Sprintf("code: %q is not an error code", e.Code)
	case e.Reason != "" && !camelCase.MatchString(e.Reason):
		return fmt.Sprintf("reason: %q is not one CamelCase word", e.Reason)
	case e.Code == Partial && (e.Reached == nil || *e.Reached < 0):
		return "reached: is required with the code \"partial\", and must not be negative"
	case e.RetryAfter < 0 || e.RetryAfter > time.Hour.Seconds():
		return fmt.Sprintf("retry_after: %v is not between 0 and 3600 seconds", e.RetryAfter)
	}
	return ""
}

// Lost returns the error of a call without a valid response. A change may have been made.
func Lost(request *Request, err error) error {
	if request.Call == Scale || request.Call == Remove {
		return targets.WithoutResponse(err)
	}
	return targets.WithClass(targets.ErrTransient, err)
}
