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

// podmanGone is part of Podman's response, with the status 500, if a container was removed during a
// call.
const podmanGone = "no such container"

// tooNew is part of the error message after an engine was replaced by an older version.
const tooNew = "client version"

// undone reports whether a response means that the engine has changed nothing.
func undone(err error) bool {
	return errdefs.IsNotFound(err) || errdefs.IsInvalidArgument(err) || errdefs.IsConflict(err) || errdefs.IsUnauthorized(err) ||
		errdefs.IsPermissionDenied(err) || errdefs.IsResourceExhausted(err) || errdefs.IsFailedPrecondition(err) ||
		errdefs.IsUnavailable(err) || errdefs.IsNotImplemented(err) || errdefs.IsNotModified(err)
}

// Error adds a class of package targets to a client error: 404 is ErrTargetNotFound and 409 is
// ErrConflict. Nil and errors that already have a class are returned unchanged.
func (e *Engine) Error(err error) error {
	if err == nil || targets.HasClass(err) {
		return err
	}
	if lost(err) {
		e.client.Store(nil)
	}
	advised := e.advise(err)
	wrap := func(class error) error { return fmt.Errorf("%w: docker at %s: %w", class, e.config.Host, advised) }
	switch {
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w: %w; hpad's user must be in the group that owns the socket, which is usually docker", targets.ErrForbidden, err)
	case errdefs.IsUnauthorized(err) || errdefs.IsPermissionDenied(err):
		return wrap(targets.ErrForbidden)
	case errdefs.IsNotFound(err) || strings.Contains(err.Error(), podmanGone):
		return wrap(targets.ErrTargetNotFound)
	case errdefs.IsConflict(err):
		return wrap(targets.ErrConflict)
	case errdefs.IsResourceExhausted(err):
		return &targets.ThrottledError{Err: fmt.Errorf("docker at %s: %w", e.config.Host, err)}
	}
	return wrap(targets.ErrTransient)
}

func (e *Engine) transient(err error) error {
	return fmt.Errorf("%w: docker at %s: %w", targets.ErrTransient, e.config.Host, err)
}

// lost reports whether the next call may reach an engine with a different version.
func lost(err error) bool {
	return client.IsErrConnectionFailed(err) || errdefs.IsInvalidArgument(err) && strings.Contains(err.Error(), tooNew)
}
