package config

import "github.com/hpad/hpad/settings/quantity"

// Tolerance is a number, which stays as it is, or a quantity, which is converted by R6.
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

// ratio is a number or a quantity, both converted by R6.
type ratio float64

func (r *ratio) UnmarshalTOML(value any) error {
	var n quantity.OrNumber
	err := n.UnmarshalTOML(value)
	*r = ratio(n.Float())
	return err
}

// milliOf returns an amount in milli-units (R2); nil for nil.
func milliOf(n *quantity.OrNumber) *int64 {
	if n == nil {
		return nil
	}
	return new(n.Milli())
}

func ofMilli(milli *int64) *quantity.OrNumber {
	if milli == nil {
		return nil
	}
	return new(quantity.OfMilli(*milli))
}
