package docker

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/client"

	"github.com/hpad/hpad/targets"
)

// sayingTooNew is in the error of an engine that was replaced by an older one.
const sayingTooNew = "client version"

// undone reports whether an error is a response by which the engine did nothing.
func undone(err error) bool {
	return errdefs.IsNotFound(err) || errdefs.IsInvalidArgument(err) || errdefs.IsConflict(err) || errdefs.IsUnauthorized(err) ||
		errdefs.IsPermissionDenied(err) || errdefs.IsResourceExhausted(err) || errdefs.IsFailedPrecondition(err) ||
		errdefs.IsUnavailable(err) || errdefs.IsNotImplemented(err) || errdefs.IsNotModified(err)
}

// Error returns an error of the client as one of a class of package targets: 404 is
// ErrTargetNotFound and 409 ErrConflict, whatever they are about. An error that has a
// class, and nil, stay as they are.
func (e *Engine) Error(err error) error {
	if err == nil || targets.Classed(err) {
		return err
	}
	if lost(err) {
		e.negotiated.Store(false)
	}
	advised := e.advise(err)
	wrap := func(class error) error { return fmt.Errorf("%w: docker at %s: %w", class, e.config.Host, advised) }
	switch {
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w: %w; hpad's user must be in the group that owns the socket, which is usually docker", targets.ErrForbidden, err)
	case errdefs.IsUnauthorized(err) || errdefs.IsPermissionDenied(err):
		return wrap(targets.ErrForbidden)
	case errdefs.IsNotFound(err):
		return wrap(targets.ErrTargetNotFound)
	case errdefs.IsConflict(err):
		return wrap(targets.ErrConflict)
	case errdefs.IsResourceExhausted(err):
		return &targets.ThrottledError{Err: fmt.Errorf("docker at %s: %w", e.config.Host, err)}
	}
	return wrap(targets.ErrTransient)
}

// transient returns an ErrTransient of the engine.
func (e *Engine) transient(err error) error {
	return fmt.Errorf("%w: docker at %s: %w", targets.ErrTransient, e.config.Host, err)
}

// lost reports whether the next call may reach another engine, of another version.
func lost(err error) bool {
	return client.IsErrConnectionFailed(err) || errdefs.IsInvalidArgument(err) && strings.Contains(err.Error(), sayingTooNew)
}
