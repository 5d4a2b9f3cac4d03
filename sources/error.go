package sources

// QueryError says that a source answered, and that it is the query that cannot be
// used: its text has a mistake, or what it evaluates to is nothing to decide on. It
// is no outage of the source.
type QueryError struct{ Err error }

// Error answers what is wrong with the query.
func (e *QueryError) Error() string { return e.Err.Error() }

// Unwrap answers the source's own error.
func (e *QueryError) Unwrap() error { return e.Err }
