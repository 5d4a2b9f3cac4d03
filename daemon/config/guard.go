package config

import (
	"errors"
	"math"
	"strconv"
	"strings"

	"github.com/hpad/hpad/settings"
)

// Guard defines suspect readings of a target: counts that collapse between two rounds without a
// write of hpad. The zero Guard accepts every reading.
type Guard struct {
	// Drop is the share by which a count must fall to be suspect: "1%" to "99%".
	Drop Percent `toml:"drop" default:"50%" min:"1%" max:"99%" must:"from \"1%\" to \"99%\""`
	// Confirm is the number of further readings that must confirm a suspect one: 0, which accepts
	// every reading, to 100.
	Confirm int32 `toml:"confirm" default:"3" min:"0" max:"100" must:"from 0, which believes every reading, to 100"`
}

// Percent is a share, written as "50%".
type Percent int32

// String returns, for example, "50%".
func (p Percent) String() string { return strconv.Itoa(int(p)) + "%" }

// TextOf returns "30%" for 0.3.
func (Percent) TextOf(share float64) string { return Percent(math.Round(share * 100)).String() }

// UnmarshalText reads, for example, "50%".
func (p *Percent) UnmarshalText(text []byte) error {
	number, ok := strings.CutSuffix(string(text), "%")
	value, err := strconv.ParseInt(number, 10, 32)
	if !ok || err != nil {
		return errors.New(`must be a percentage, such as "50%"`)
	}
	*p = Percent(value)
	return nil
}

// guardOf returns the given guard, or the default of the kind. Guarded kinds are platforms that are
// known to return incomplete counts.
func guardOf(given *Guard, guarded bool) Guard {
	var g Guard
	switch {
	case given != nil:
		g = *given
	case guarded:
		settings.SetDefaults(&g)
	}
	return g
}
