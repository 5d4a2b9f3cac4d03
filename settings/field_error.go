// Package settings decodes, defaults and validates configuration tables of the daemon, fleets,
// sources and drains. Its subpackages have quantities and access to HTTP servers.
package settings

// FieldError is one error in a configuration value.
type FieldError struct {
	// Field is the path of the value, such as "metrics[0].target.value".
	Field string
	// Value is the value as written; empty if it is absent.
	Value string
	// Detail describes the error and the allowed values, such as "must be at least 1".
	Detail string
}

// Error returns the field, the value and the detail.
func (e FieldError) Error() string {
	if e.Value == "" {
		return e.Field + ": " + e.Detail
	}
	return e.Field + " = " + e.Value + ": " + e.Detail
}

// Mistakes are the errors in a table, in the order they were found.
type Mistakes []FieldError

// Add adds an error: the path of the key, its value (empty if it is hidden), and the detail.
func (m *Mistakes) Add(field, value, detail string) {
	*m = append(*m, FieldError{Field: field, Value: value, Detail: detail})
}
