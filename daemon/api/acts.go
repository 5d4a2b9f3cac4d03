package api

import "errors"

// Errors of people's acts, to be tested for.
var (
	// ErrUnknown is that there is no autoscaler, or no fleet, of that name.
	ErrUnknown = errors.New("not known")
	// ErrNotPaused is that there is no pause to end.
	ErrNotPaused = errors.New("not paused")
	// ErrRefused is that an act cannot be done as things are: the error says why, and
	// nothing was changed.
	ErrRefused = errors.New("refused")
)
