package policy

// FieldError is one mistake in a configuration value. Fleets and sources answer
// with it too, so that every mistake reaches the user in one form.
type FieldError struct {
	// Field is the path of the value, as "metrics[0].target.value".
	Field string
	// Value is what was given, as written; empty when nothing was.
	Value string
	// Detail says what is wrong and what is allowed, as "must be at least 1".
	Detail string
}

// Error answers the field, the value and the detail.
func (e FieldError) Error() string {
	if e.Value == "" {
		return e.Field + ": " + e.Detail
	}
	return e.Field + " = " + e.Value + ": " + e.Detail
}
