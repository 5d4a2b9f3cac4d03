package httpclient

import (
	"context"
	"errors"
	"io"
	"net/url"
	"os"
	"strings"
)

// Cause returns the part of the error of a request that an operator needs: without the URL, which can
// contain secrets, and without the addresses of the connection. It wraps the error.
func Cause(err error) error {
	cause := err
	if failed, ok := errors.AsType[*url.Error](cause); ok {
		cause = failed.Err
	}
	call, isCall := errors.AsType[*os.SyscallError](cause)
	text := strings.TrimPrefix(cause.Error(), "net/http: HTTP/1.x transport connection broken: ")
	switch {
	case text == context.DeadlineExceeded.Error(), strings.HasSuffix(text, "i/o timeout"): // other texts name the limit
		text = "timeout"
	case isCall:
		text = call.Err.Error()
	case text == io.EOF.Error():
		text = "the connection was closed without a response"
	}
	return &causeError{text, err}
}

type causeError struct {
	text string
	err  error
}

func (e *causeError) Error() string { return e.text }

func (e *causeError) Unwrap() error { return e.err }
