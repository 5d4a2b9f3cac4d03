package config

import (
	"errors"
	"math"
	"strconv"
	"strings"

	"github.com/hpad/hpad/settings"
)

// Guard says which readings of a target are not believed at once: those by which
// it collapses between two rounds without a write of hpad's. The zero Guard believes
// every reading.
type Guard struct {
	// Drop is by how much of what it was a count must have fallen to be doubted: "1%"
	// to "99%".
	Drop Percent `toml:"drop" default:"50%" min:"1%" max:"99%" must:"from \"1%\" to \"99%\""`
	// Confirm is how many more readings must agree before it is believed: 0, which
	// believes every reading, to 100.
	Confirm int32 `toml:"confirm" default:"3" min:"0" max:"100" must:"from 0, which believes every reading, to 100"`
}

// Percent is a share of a whole, written as "50%".
type Percent int32

// String returns "50%".
func (p Percent) String() string { return strconv.Itoa(int(p)) + "%" }

// TextOf returns how a share is written: "30%" for 0.3.
func (Percent) TextOf(share float64) string { return Percent(math.Round(share * 100)).String() }

// UnmarshalText reads "50%".
func (p *Percent) UnmarshalText(text []byte) error {
	number, ok := strings.CutSuffix(string(text), "%")
	value, err := strconv.ParseInt(number, 10, 32)
	if !ok || err != nil {
		return errors.New(`must be a percentage, as "50%"`)
	}
	*p = Percent(value)
	return nil
}

// guardOf returns the guard that is given, or its kind's default: that of kinds whose
// platforms are known to answer with less than there is, else none.
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
