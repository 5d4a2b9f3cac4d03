// Package settings is what the configurations of the daemon, fleets, sources and
// drainers have in common: how a mistake is named here, amounts in quantity, and
// access to servers over HTTP in httpclient.
package settings

// FieldError is one mistake in a configuration value.
type FieldError struct {
	// Field is the path of the value, as "metrics[0].target.value".
	Field string
	// Value is what was given, as written; empty when nothing was.
	Value string
	// Detail says what is wrong and what is allowed, as "must be at least 1".
	Detail string
}

// Error returns the field, the value and the detail.
func (e FieldError) Error() string {
	if e.Value == "" {
		return e.Field + ": " + e.Detail
	}
	return e.Field + " = " + e.Value + ": " + e.Detail
}

// Mistakes are those of a table, in the order they were found.
type Mistakes []FieldError

// Add adds one: the key's path, its value as it is shown, empty where it is not, and
// what is wrong.
func (m *Mistakes) Add(field, value, detail string) {
	*m = append(*m, FieldError{Field: field, Value: value, Detail: detail})
}
