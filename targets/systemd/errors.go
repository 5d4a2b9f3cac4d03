package systemd

import (
	"errors"
	"fmt"
	"strings"

	godbus "github.com/godbus/dbus/v5"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
)

// The reasons for errors and holds.
const (
	// templateNotFound means that the unit file does not exist.
	templateNotFound = "TemplateNotFound"
	// TemplateAlias means that the template is an alias of a different template.
	TemplateAlias = "TemplateAlias"
	// TemplateMasked means that the template is masked.
	TemplateMasked = "TemplateMasked"
	// unitMasked means that an instance is masked.
	unitMasked = "UnitMasked"
	// templateInvalid means that the manager cannot load units from the file.
	templateInvalid = "TemplateInvalid"
	// notAllowed means that hpad's user is not permitted to start and stop units.
	notAllowed = "NotAllowed"
	// ShuttingDown means that the manager is shutting down.
	ShuttingDown = "ShuttingDown"
)

// refusedError reports that the manager did not start one unit. It may still start other units
// of the template.
type refusedError struct {
	reason string
}

func (e *refusedError) Error() string { return e.reason }

// refusalOf returns a refusedError if the error of a start concerns the unit, its file or its
// dependencies. Otherwise it returns the error unchanged.
func refusalOf(err error, unit string) error {
	reply, ok := errors.AsType[godbus.Error](err)
	if !ok {
		return err
	}
	own := strings.Contains(reply.Error(), unit)
	refused := &refusedError{reason: fmt.Sprintf("%s (%s)", reply.Error(), reply.Name)}
	class, reason := targets.ErrUnscalable, templateInvalid
	switch reply.Name {
	case "org.freedesktop.systemd1.UnitMasked":
		if own {
			reason = unitMasked
		}
	case "org.freedesktop.systemd1.NoSuchUnit":
		if own {
			class, reason = targets.ErrTargetNotFound, templateNotFound
		}
	case "org.freedesktop.systemd1.BadUnitSetting", "org.freedesktop.systemd1.LoadFailed", "org.freedesktop.systemd1.OnlyByDependency",
		"org.freedesktop.systemd1.TransactionJobsConflicting", "org.freedesktop.systemd1.TransactionOrderIsCyclic":
	default:
		return err
	}
	return &targets.ReasonError{Reason: reason, Err: fmt.Errorf("%w: %w", class, refused)}
}

// errLost means that the outcome of a call is unknown.
var errLost = errors.New("no response")

// classify adds a class of package targets to the error of a call.
func classify(err error) error {
	if _, done := errors.AsType[*refusedError](err); done {
		return err
	}
	reply, isReply := errors.AsType[godbus.Error](err)
	if !isReply {
		switch {
		case err == nil:
			return nil
		case errors.Is(err, godbus.ErrClosed):
			return targets.WithClass(targets.ErrTransient, fmt.Errorf("%w: the connection was closed", errLost))
		}
		return targets.WithClass(targets.ErrTransient, fmt.Errorf("%w: %w", errLost, err))
	}
	replyErr := fmt.Errorf("%s (%s)", reply.Error(), reply.Name)
	switch reply.Name {
	case "org.freedesktop.systemd1.NoSuchUnit":
		return &targets.ReasonError{Reason: templateNotFound, Err: fmt.Errorf("%w: %w", targets.ErrTargetNotFound, replyErr)}
	case "org.freedesktop.systemd1.UnitMasked":
		return fmt.Errorf("%w: %w", targets.ErrUnscalable, replyErr)
	case "org.freedesktop.systemd1.BadUnitSetting", "org.freedesktop.systemd1.LoadFailed", "org.freedesktop.systemd1.OnlyByDependency":
		return &targets.ReasonError{Reason: templateInvalid, Err: fmt.Errorf("%w: %w", targets.ErrUnscalable, replyErr)}
	case "org.freedesktop.systemd1.ShuttingDown", "org.freedesktop.systemd1.TransactionIsDestructive":
		return &targets.HeldError{Hold: shuttingDown(reply)}
	case "org.freedesktop.DBus.Error.AccessDenied", "org.freedesktop.DBus.Error.AuthFailed", "org.freedesktop.DBus.Error.InteractiveAuthorizationRequired":
		return &targets.ReasonError{Reason: notAllowed, Err: fmt.Errorf("%w: %w; %s", targets.ErrForbidden, replyErr, polkitHint)}
	case "org.freedesktop.DBus.Error.LimitsExceeded":
		return &targets.ThrottledError{Err: replyErr}
	case "org.freedesktop.DBus.Error.NoReply", "org.freedesktop.DBus.Error.Timeout", "org.freedesktop.DBus.Error.TimedOut", "org.freedesktop.DBus.Error.Disconnected":
		return targets.WithClass(targets.ErrTransient, fmt.Errorf("%w: %w", errLost, replyErr))
	}
	return fmt.Errorf("%w: %w", targets.ErrTransient, replyErr)
}

// ignoreInvalidMode returns nil for errors that occur only after polkit has granted the permission.
func ignoreInvalidMode(err error) error {
	if reply, ok := errors.AsType[godbus.Error](err); ok &&
		(strings.HasPrefix(reply.Name, "org.freedesktop.systemd1.") || reply.Name == "org.freedesktop.DBus.Error.InvalidArgs") {
		return nil
	}
	return err
}

const polkitHint = "users other than root need a polkit rule for org.freedesktop.systemd1.manage-units that names the template, as in 49-hpad-systemd.rules (see docs/systemd.md)"

// shutdownTarget is active while a manager stops all other units.
const shutdownTarget = "shutdown.target"

// errShutdown is the error that reads and writes return during a shutdown.
var errShutdown = &targets.ReasonError{Reason: ShuttingDown, Err: fmt.Errorf("%w: the manager is stopping all units because the host is shutting down or the user's last session has ended", targets.ErrTransient)}

func shuttingDown(reply godbus.Error) policy.Hold {
	return policy.Hold{Reason: ShuttingDown, Message: "the manager rejects changes because it is shutting down: " + reply.Error()}
}
