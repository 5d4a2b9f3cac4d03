package sources

// QueryError means that the source works, and the query cannot be used: its text has
// a mistake, or its result is nothing to decide on.
type QueryError struct{ Err error }

// Error returns the text of the source's own error.
func (e *QueryError) Error() string { return e.Err.Error() }

// Unwrap returns the source's own error.
func (e *QueryError) Unwrap() error { return e.Err }
