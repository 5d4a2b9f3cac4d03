package trouble

import (
	"fmt"
	"runtime/debug"
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
