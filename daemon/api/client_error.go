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

// ErrNotFound is what an [Error] is when there is no autoscaler of that name.
var ErrNotFound = errors.New("not found")

// Error is an error that the daemon answered.
type Error struct {
	// Status is the HTTP status.
	Status int
	Type   ErrorType
	// Message says what is wrong, in the daemon's words.
	Message string
}

// Error returns the daemon's words.
func (e *Error) Error() string { return e.Message }

// Is makes an Error of the type not_found an ErrNotFound and an ErrUnknown, of the type
// not_paused an ErrNotPaused, and of the type refused an ErrRefused.
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

// ReachError is that the daemon could not be reached where it was looked for.
type ReachError struct {
	// Address is the path of the socket or the URL of the server.
	Address string
	// Hint says what to do about it; empty when nothing is known to help.
	Hint string
	Err  error
}

// Error returns the address and what is wrong with it.
func (e *ReachError) Error() string { return fmt.Sprintf("reach hpad at %q: %v", e.Address, e.Err) }

// Unwrap returns what is wrong with the address.
func (e *ReachError) Unwrap() error { return e.Err }

// causeOf returns the error of a request without the request.
func causeOf(err error) error {
	if failed, ok := errors.AsType[*url.Error](err); ok {
		return failed.Err
	}
	return err
}

// unreachableSocket turns the failure of a request into a ReachError with a hint.
func unreachableSocket(socket string, err error) error {
	err = causeOf(err)
	hint := ""
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = errors.New("there is no such socket")
		hint = `is hpad running? start it with "hpad run"; if it ended, "journalctl -u hpad" or what it printed says why; or name its socket with --socket or HPAD_SOCKET`
	case errors.Is(err, syscall.ECONNREFUSED) && !isSocket(socket):
		err = errors.New("it is no socket")
		hint = `name the socket of hpad with --socket or HPAD_SOCKET: it is daemon.socket of the configuration`
	case errors.Is(err, syscall.ECONNREFUSED):
		err = errors.New("nobody answers on the socket")
		hint = `hpad seems to have ended without removing it: start it again with "hpad run", or look at its log`
	case errors.Is(err, fs.ErrPermission):
		err = errors.New("permission denied")
		hint = permissionHint(socket)
	}
	return &ReachError{Address: socket, Hint: hint, Err: err}
}

// isSocket reports whether there is a socket, or nothing that can be seen.
func isSocket(path string) bool {
	info, err := os.Stat(path)
	return err != nil || info.Mode().Type() == fs.ModeSocket
}

// permissionHint names the group that may use the socket. Nobody is advised to join
// root's group.
func permissionHint(socket string) string {
	name, group := socketGroup(socket)
	if group == "" || group == "root" {
		return "run the command as root or as the user that hpad runs as, or name a group that may use the socket in daemon.socket_group"
	}
	return fmt.Sprintf("%s belongs to the group %s: become a member of it (usermod -a -G %s USER, then log in again), or run the command as root",
		name, group, group)
}

// socketGroup returns the group of the socket, or that of the nearest directory
// above it that can be seen; an empty group when none can.
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
