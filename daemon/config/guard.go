package config

import (
	"fmt"
	"strconv"
	"strings"
)

// Guard says which readings of a target are not believed at once: those by which
// it collapses between two rounds without a write of hpad's.
type Guard struct {
	// Drop is by how many percent of what it was a count must have fallen to be
	// doubted: more than this, 1 to 99; 0 where there is no guard.
	Drop int32
	// Confirm is how many readings in a row must agree with the first one before it
	// is believed; 0 believes every reading.
	Confirm int32
}

// The guard of kinds whose platforms are known to answer with less than there
// is.
const (
	DefaultGuardDrop    = 50
	DefaultGuardConfirm = 3

	maxGuardConfirm = 100
)

// guardTable is an autoscaler's guard as it is written.
type guardTable struct {
	// Drop is by how much of what it was a count must have fallen to be doubted: "1%"
	// to "99%".
	Drop *percent `toml:"drop"`
	// Confirm is how many more readings must agree before it is believed: 0, which
	// believes every reading, to 100.
	Confirm *int32 `toml:"confirm"`
}

// percent is a share of a whole, written as "50%".
type percent int32

// String returns "50%".
func (p percent) String() string { return strconv.Itoa(int(p)) + "%" }

// UnmarshalText reads "50%".
func (p *percent) UnmarshalText(text []byte) error {
	number, ok := strings.CutSuffix(string(text), "%")
	value, err := strconv.ParseInt(number, 10, 32)
	if !ok || err != nil {
		return fmt.Errorf(`must be a percentage, as "50%%"`)
	}
	*p = percent(value)
	return nil
}

// readGuard answers the guard that is written, or its kind's default, which is
// none for most.
func (t *table) readGuard(given *guardTable, guarded bool) Guard {
	if given == nil && !guarded {
		return Guard{}
	}
	guard := Guard{Drop: DefaultGuardDrop, Confirm: DefaultGuardConfirm}
	if given == nil {
		return guard
	}
	if given.Drop != nil {
		guard.Drop = int32(*given.Drop)
	}
	if given.Confirm != nil {
		guard.Confirm = *given.Confirm
	}
	if guard.Drop < 1 || guard.Drop > 99 {
		t.addWritten("guard.drop", `must be from "1%" to "99%"`)
	}
	if guard.Confirm < 0 || guard.Confirm > maxGuardConfirm {
		t.addWritten("guard.confirm", fmt.Sprintf("must be from 0, which believes every reading, to %d", maxGuardConfirm))
	}
	return guard
}
