package quantity

import (
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/hpad/hpad/settings"
)

// OrNumber is a quantity or a TOML number. A number is converted using its shortest decimal
// form (R6).
type OrNumber struct{ Quantity }

// UnmarshalTOML reads a quantity or a number.
func (n *OrNumber) UnmarshalTOML(value any) error {
	var text string
	switch value := value.(type) {
	case string:
		text = value
	case int64:
		text = strconv.FormatInt(value, 10)
	case float64:
		if math.IsNaN(value) || math.IsInf(value, 0) {
			return errors.New("must be a finite number")
		}
		text = strconv.FormatFloat(value, 'f', -1, 64)
	default:
		return fmt.Errorf("must be a number or a quantity, such as 0.05 or \"50m\", not %s", settings.KindOf(value))
	}
	parsed, err := Parse(text)
	if err != nil {
		return err
	}
	n.Quantity = parsed
	return nil
}

// Bytes is an amount of memory in bytes, written as a quantity or a number.
type Bytes int64

// UnmarshalTOML reads a quantity or a number.
func (b *Bytes) UnmarshalTOML(value any) error {
	var n OrNumber
	err := n.UnmarshalTOML(value)
	*b = Bytes(n.Milli() / 1000)
	return err
}

// String returns the shortest quantity.
func (b Bytes) String() string { return FormatBytes(int64(b) * 1000) }
