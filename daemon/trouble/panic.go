package trouble

import (
	"errors"
	"fmt"
	"runtime/debug"

	"go.uber.org/zap"
)

// Panic is a recovered panic as an error.
type Panic struct {
	Value any
	Stack []byte
}

// Error returns the value of the panic.
func (e *Panic) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// Guard calls f and returns its error; a panic becomes a *Panic.
func Guard(f func() error) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = &Panic{Value: value, Stack: debug.Stack()}
		}
	}()
	return f()
}

// LogPanic logs a panic with its stack, and ignores other errors.
func LogPanic(log *zap.Logger, what, name string, err error) {
	if caught, ok := errors.AsType[*Panic](err); ok {
		log.Error("panic in a "+what, zap.String(what, name), zap.NamedError("err", err), zap.ByteString("stack", caught.Stack))
	}
}
