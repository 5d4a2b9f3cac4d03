package api

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// Causes of errors. Test for them with errors.Is.
var (
	// ErrNotFound is the cause of an [Error] if the autoscaler does not exist.
	ErrNotFound = errors.New("not found")
	// ErrUnknown means that no autoscaler or fleet has the name.
	ErrUnknown = errors.New("not known")
	// ErrNotPaused means that there is no pause to end.
	ErrNotPaused = errors.New("not paused")
	// ErrRefused means that an action is currently impossible and that nothing was changed.
	ErrRefused = errors.New("refused")
)

// Error is an error that the daemon returned.
type Error struct {
	// Status is the HTTP status.
	Status  int
	Type    ErrorType
	Message string
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }

// Is reports whether target matches the type: ErrNotFound and ErrUnknown match not_found,
// ErrNotPaused matches not_paused, and ErrRefused matches refused.
func (e *Error) Is(target error) bool {
	switch target {
	case ErrNotFound, ErrUnknown:
		return e.Type == ErrorNotFound
	case ErrNotPaused:
		return e.Type == ErrorNotPaused
	case ErrRefused:
		return e.Type == ErrorRefused
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
}

// Error returns the address and the cause.
func (e *ReachError) Error() string { return fmt.Sprintf("reach hpad at %q: %v", e.Address, e.Err) }

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
		err = errors.New("there is no such socket")
		hint = `is hpad running? start it with "hpad run"; if it ended, "journalctl -u hpad" or what it printed says why; or name its socket with --socket or HPAD_SOCKET`
	case errors.Is(err, syscall.ECONNREFUSED) && !isSocket(socket):
		err = errors.New("it is not a socket")
		hint = `set --socket or HPAD_SOCKET to the value of daemon.socket in the configuration`
	case errors.Is(err, syscall.ECONNREFUSED):
		err = errors.New("no process listens on the socket")
		hint = `hpad probably ended without removing it: start it again with "hpad run", or check its log`
	case errors.Is(err, fs.ErrPermission):
		err = errors.New("permission denied")
		hint = permissionHint(socket)
	}
	return &ReachError{Address: socket, Hint: hint, Err: err}
}

// isSocket reports whether the file is a socket. It returns true if the file cannot be read.
func isSocket(path string) bool {
	info, err := os.Stat(path)
	return err != nil || info.Mode().Type() == fs.ModeSocket
}

// permissionHint returns a hint that names the group of the socket, unless the group is root.
func permissionHint(socket string) string {
	name, group := socketGroup(socket)
	if group == "" || group == "root" {
		return "run the command as root or as the user of hpad, or set daemon.socket_group to a group that may use the socket"
	}
	return fmt.Sprintf("%s belongs to the group %s: become a member of it (usermod -a -G %s USER, then log in again), or run the command as root",
		name, group, group)
}

// socketGroup returns the socket and its group. If the socket cannot be read, it returns the
// nearest readable parent directory and its group. The group is empty if it is unknown.
func socketGroup(socket string) (name, group string) {
	for name = filepath.Clean(socket); ; name = filepath.Dir(name) {
		if info, err := os.Stat(name); err == nil {
			stat, ok := info.Sys().(*syscall.Stat_t)
			if !ok {
				return name, ""
			}
			id := strconv.FormatUint(uint64(stat.Gid), 10)
			if found, err := user.LookupGroupId(id); err == nil {
				return name, found.Name
			}
			return name, id
		}
		if name == filepath.Dir(name) {
			return name, ""
		}
	}
}
