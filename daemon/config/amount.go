package config

import "github.com/hpad/hpad/settings/quantity"

// Tolerance is a number, or a quantity as R6 makes a float of it. It is the daemon's,
// which upstream reads as a float.
type Tolerance float64

// UnmarshalTOML reads a number or a quantity.
func (t *Tolerance) UnmarshalTOML(value any) error {
	var n quantity.OrNumber
	err := n.UnmarshalTOML(value)
	*t = Tolerance(n.Float())
	switch number := value.(type) {
	case float64:
		*t = Tolerance(number)
	case int64:
		*t = Tolerance(number)
	}
	return err
}

// ratio is a number or a quantity, either as R6 makes a float of it.
type ratio float64

// UnmarshalTOML reads a number or a quantity.
func (r *ratio) UnmarshalTOML(value any) error {
	var n quantity.OrNumber
	err := n.UnmarshalTOML(value)
	*r = ratio(n.Float())
	return err
}

// milliOf returns the milli-units of an amount (R2), and nil for nil.
func milliOf(n *quantity.OrNumber) *int64 {
	if n == nil {
		return nil
	}
	return new(n.Milli())
}

// ofMilli returns an amount of milli-units, and nil for nil.
func ofMilli(milli *int64) *quantity.OrNumber {
	if milli == nil {
		return nil
	}
	return new(quantity.OfMilli(*milli))
}
