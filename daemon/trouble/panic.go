package trouble

import (
	"errors"
	"fmt"
	"runtime/debug"

	"go.uber.org/zap"
)

// Panic is a panic that was caught, as an error.
type Panic struct {
	Value any
	Stack []byte
}

// Error says what the panic was about.
func (e *Panic) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// Guard calls f and returns its error, which for a panic is a *Panic.
func Guard(f func() error) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = &Panic{Value: value, Stack: debug.Stack()}
		}
	}()
	return f()
}

// LogPanic logs a panic of something with its stack; any other error is none.
func LogPanic(log *zap.Logger, what, name string, err error) {
	if caught, ok := errors.AsType[*Panic](err); ok {
		log.Error("panic in a "+what, zap.String(what, name), zap.NamedError("err", err), zap.ByteString("stack", caught.Stack))
	}
}
