package config

import (
	"fmt"
	"math"
	"strconv"

	"github.com/hpad/hpad/settings"
	"github.com/hpad/hpad/settings/quantity"
)

// amount is a quantity that may also be written as a TOML number, which is read
// through its shortest decimal text (R6).
type amount struct {
	quantity.Quantity
	// number is set when it was written as a number.
	number *float64
}

// UnmarshalTOML reads a quantity or a number.
func (a *amount) UnmarshalTOML(value any) error {
	var text string
	switch value := value.(type) {
	case string:
		text = value
	case int64:
		text = strconv.FormatInt(value, 10)
		a.number = new(float64(value))
	case float64:
		if math.IsNaN(value) || math.IsInf(value, 0) {
			return fmt.Errorf("must be a finite number")
		}
		text = strconv.FormatFloat(value, 'f', -1, 64)
		a.number = &value
	default:
		return fmt.Errorf("must be a number or a quantity, as 0.05 or \"50m\", not %s", settings.KindOf(value))
	}
	parsed, err := quantity.Parse(text)
	if err != nil {
		return err
	}
	a.Quantity = parsed
	return nil
}

// plain answers the number as it was written, and a quantity as R6 makes a float
// of it. It is what the daemon's tolerance is, which upstream reads as a float.
func (a amount) plain() float64 {
	if a.number != nil {
		return *a.number
	}
	return a.Float()
}

// bytes returns the whole bytes of an amount of memory.
func (a amount) bytes() int64 { return a.Milli() / 1000 }

// milli answers the milli-units (R2), and nil for nil.
func (a *amount) milli() *int64 {
	if a == nil {
		return nil
	}
	return new(a.Milli())
}
