package api

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"syscall"
)

// Causes of errors. Test for them with errors.Is.
var (
	// ErrNotFound is the cause of an [Error] if the autoscaler does not exist.
	ErrNotFound = errors.New("not found")
	// ErrUnknown means that no autoscaler or fleet has the name.
	ErrUnknown = errors.New("does not exist")
	// ErrNotPaused means that there is no pause to end.
	ErrNotPaused = errors.New("not paused")
	// ErrRefused means that an action is currently impossible and that nothing was changed.
	ErrRefused = errors.New("refused")
	// ErrMoving is an ErrRefused for an action that is possible in a moment, because the fleet moves to
	// another owner or the daemon starts or stops.
	ErrMoving error = moving{}
	// ErrUnknownOutcome means that the action may have been performed.
	ErrUnknownOutcome = errors.New("outcome unknown")
	// ErrUnstored means that a change is active, but hpad could not store it.
	ErrUnstored = errors.New("changed, but not stored yet, so a restart could lose the change")
)

type moving struct{}

func (moving) Error() string        { return ErrRefused.Error() }
func (moving) Is(target error) bool { return target == ErrRefused }

// Error is an error response of the daemon.
type Error struct {
	// Status is the HTTP status.
	Status  int
	Type    ErrorType
	Message string
	// moving is set for an ErrMoving.
	moving bool
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }

// causes maps errors to the types in a response. The server uses the first matching row.
var causes = []struct {
	err  error
	kind ErrorType
}{
	{ErrUnknownOutcome, ErrorUnknownOutcome},
	{ErrUnknown, ErrorNotFound},
	{ErrNotFound, ErrorNotFound},
	{ErrNotPaused, ErrorNotPaused},
	{ErrRefused, ErrorRefused},
	{ErrUnstored, ErrorUnstored},
}

// typeOf returns the type of an error in a response.
func typeOf(err error) ErrorType {
	for _, cause := range causes {
		if errors.Is(err, cause.err) {
			return cause.kind
		}
	}
	return ErrorInternal
}

// Is reports whether target is a cause of the type. ErrMoving is a cause of some refusals of members
// of a cluster.
func (e *Error) Is(target error) bool {
	if target == ErrMoving {
		return e.moving
	}
	for _, cause := range causes {
		if cause.err == target && cause.kind == e.Type {
			return true
		}
	}
	return false
}

// ReachError means that the daemon cannot be reached.
type ReachError struct {
	// Address is the path of the socket or the URL of the server.
	Address string
	// Hint suggests a remedy. It may be empty.
	Hint string
	Err  error
	// Unsent is set if the daemon has not received the request.
	Unsent bool
}

// Error returns the address and the cause.
func (e *ReachError) Error() string {
	return fmt.Sprintf("connect to hpad at %q: %v", e.Address, e.Err)
}

// Unwrap returns the cause.
func (e *ReachError) Unwrap() error { return e.Err }

// causeOf removes the URL from the error of a request.
func causeOf(err error) error {
	if failed, ok := errors.AsType[*url.Error](err); ok {
		return failed.Err
	}
	return err
}

// unreachableSocket converts the error of a failed request to a ReachError with a hint.
func unreachableSocket(socket string, err error) error {
	err = causeOf(err)
	hint := ""
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = errors.New("the socket does not exist")
		hint = `is hpad running? start it with "hpad run", or set --socket or HPAD_SOCKET; if hpad has stopped, "journalctl -u hpad" or its output shows the reason`
	case errors.Is(err, syscall.ECONNREFUSED) && !isSocket(socket):
		err = errors.New("it is not a socket")
		hint = `set --socket or HPAD_SOCKET to the value of daemon.socket in the configuration`
	case errors.Is(err, syscall.ECONNREFUSED):
		err = errors.New("no process listens on the socket")
		hint = `hpad probably stopped without removing it: start it again with "hpad run", or check its log`
	case errors.Is(err, fs.ErrPermission):
		err = errors.New("permission denied")
		hint = "run the command as root, or as a user in the group of the socket (daemon.socket_group, by default the group of hpad)"
	}
	return &ReachError{Address: socket, Hint: hint, Err: err}
}

// isSocket reports whether the file is a socket. It returns true if the file cannot be read.
func isSocket(path string) bool {
	info, err := os.Stat(path)
	return err != nil || info.Mode().Type() == fs.ModeSocket
}
