// Package quantity parses Kubernetes quantities ("500m", "1.5Gi") into milli-units, the unit of the
// algorithm (R1 to R3, R6).
package quantity

import (
	"fmt"
	"math"
	"regexp"
	"strings"

	"gopkg.in/inf.v0"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/hpad/hpad/policy"
)

// Quantity is an exact decimal amount whose milli-units fit 64 bits. The zero Quantity is 0. It
// decodes from the text of a quantity.
type Quantity struct {
	text  string
	milli int64
	// roundedUp is the amount that was added by rounding to milli-units, in nano-units.
	roundedUp int32
	float     float64
}

// hugeExponent matches a decimal exponent of at least 1000 or at most -1000. Such an amount is
// never in range, and computing all its digits would take minutes and gigabytes.
var hugeExponent = regexp.MustCompile(`[eE][+-]?0*[1-9][0-9]{3,}$`)

// Parse parses a quantity as R1 defines it. It returns an error that describes the allowed form
// if the text is invalid or its milli-units do not fit 64 bits (R3).
func Parse(text string) (Quantity, error) {
	if hugeExponent.MatchString(text) {
		return Quantity{}, fmt.Errorf("%q is out of range: the exponent of a quantity has at most 3 digits", text)
	}
	parsed, err := resource.ParseQuantity(text)
	if err != nil {
		return Quantity{}, fmt.Errorf("%q is not a quantity: use a number with an optional suffix n, u, m, k, M, G, T, P, E, Ki, Mi, Gi, Ti, Pi or Ei, such as \"500m\" or \"1.5Gi\"", text)
	}
	exact := parsed.AsDec()
	milli, ok := new(inf.Dec).Round(exact, 3, inf.RoundUp).Unscaled()
	if !ok || milli == math.MinInt64 {
		return Quantity{}, fmt.Errorf("%q is too large: at most 9.2e15 is allowed, because thousandths must fit in 64 bits", text)
	}
	added := new(inf.Dec).Sub(inf.NewDec(milli, 3), exact)
	nano, _ := new(inf.Dec).Round(added, 9, inf.RoundDown).Unscaled()
	// R6 uses the canonical form, which Kubernetes stores: "0.3" becomes "300m", whose float64
	// differs in the last bit.
	unrounded := resource.MustParse(text)
	stored := resource.MustParse(unrounded.String())
	return Quantity{text: text, milli: milli, roundedUp: int32(nano), float: stored.AsApproximateFloat64()}, nil
}

// UnmarshalText parses a quantity.
func (q *Quantity) UnmarshalText(text []byte) error {
	parsed, err := Parse(string(text))
	if err != nil {
		return err
	}
	*q = parsed
	return nil
}

// String returns the text as written in the configuration.
func (q Quantity) String() string {
	if q.text == "" {
		return "0"
	}
	return q.text
}

// TextOf returns the quantity for a number: "500m" for 0.5.
func (Quantity) TextOf(number float64) string { return FormatMilli(int64(math.Round(number * 1000))) }

// Binary reports whether the text has a binary suffix, such as "Mi".
func (q Quantity) Binary() bool { return strings.HasSuffix(q.text, "i") }

// Milli returns the amount in milli-units, rounded away from zero (R2).
func (q Quantity) Milli() int64 { return q.milli }

// Float returns the amount as a float (R6).
func (q Quantity) Float() float64 { return q.float }

// Amount converts the quantity to an amount of the named resource, including the rounding.
func (q Quantity) Amount(name string) policy.Amount {
	return policy.Amount{Resource: name, Milli: q.milli, RoundedUpNano: q.roundedUp}
}

// FormatMilli formats milli-units like kubectl: the shortest decimal quantity, such as "80",
// "1500m" or "2k".
func FormatMilli(milli int64) string {
	if milli%1000 != 0 {
		return resource.NewMilliQuantity(milli, resource.DecimalSI).String()
	}
	return resource.NewQuantity(milli/1000, resource.DecimalSI).String()
}

// FormatDecimal is like FormatMilli, but formats fractions as decimals, such as "16.5" or
// "0.833".
func FormatDecimal(milli int64) string {
	if milli%1000 == 0 {
		return FormatMilli(milli)
	}
	return strings.TrimRight(inf.NewDec(milli, 3).String(), "0")
}

// FormatBytes formats thousandths of bytes as the shorter of the binary and the decimal quantity,
// such as "512Mi" or "500M".
func FormatBytes(milli int64) string {
	decimal := FormatDecimal(milli)
	if milli%1000 != 0 {
		return decimal
	}
	if binary := resource.NewQuantity(milli/1000, resource.BinarySI).String(); len(binary) < len(decimal) {
		return binary
	}
	return decimal
}

// FormatMemory formats thousandths of bytes like "kubectl top": in whole mebibytes, such as "50Mi"
// or "1Gi"; less than 1Mi in whole kibibytes or bytes.
func FormatMemory(milli int64) string {
	bytes := milli / 1000
	for _, unit := range []int64{1 << 20, 1 << 10} {
		if bytes >= unit {
			bytes -= bytes % unit
			break
		}
	}
	return resource.NewQuantity(bytes, resource.BinarySI).String()
}
