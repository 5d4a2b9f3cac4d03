package config

import (
	"fmt"
	"maps"
	"reflect"
	"time"

	"github.com/hpad/hpad/settings"
)

// fleetTable has the keys of every fleet besides its kind.
type fleetTable struct {
	// Breaker holds all scale-downs of the fleet for its window if the autoscalers together would
	// remove more of its instances within the window; left out, there is no breaker. Not with
	// compat = "strict".
	Breaker *Breaker `toml:"breaker"`
}

// fleetFields are the keys of every fleet. The kind has no entry in Keys, so that messages do not
// suggest it.
var fleetFields = func() settings.Fields {
	fields := settings.FieldsOf(reflect.TypeFor[fleetTable]())
	byKey := map[string]reflect.StructField{kindKey: {}}
	maps.Copy(byKey, fields.ByKey)
	return settings.Fields{Keys: fields.Keys, ByKey: byKey}
}()

// Breaker limits the instances that the autoscalers of a fleet remove together.
type Breaker struct {
	// MaxRemoved is the share of the fleet's instances, "1%" to "100%", rounded up.
	MaxRemoved Percent `toml:"max_removed" min:"1%" max:"100%" must:"from \"1%\" to \"100%\""`
	// Window is the period in which removed instances are counted, and for which scale-downs are
	// held: 1m to 24h.
	Window time.Duration `toml:"window" default:"10m" min:"1m" max:"24h" must:"from \"1m\" to \"24h\""`
}

// String returns, for example, "30% in 10m0s".
func (b Breaker) String() string { return fmt.Sprintf("%s in %s", b.MaxRemoved, b.Window) }

// Allows returns the number of instances that may be removed of a total.
func (b Breaker) Allows(instances int64) int64 {
	return (instances*int64(b.MaxRemoved) + 99) / 100
}

// readBreaker returns the breaker of a fleet's table; nil without a valid one.
func (t *table) readBreaker(strict bool) *Breaker {
	const key = "breaker"
	raw, ok := t.raw[key]
	if !ok {
		return nil
	}
	if strict {
		t.add(key, "", `is not allowed with compat = "strict": an HPA ignores other autoscalers`)
		return nil
	}
	var given fleetTable
	before := len(t.misfits)
	if !t.decode(key, reflect.ValueOf(&given.Breaker).Elem(), raw) {
		return nil
	}
	if len(t.misfits) == before {
		t.checkTags(key, given.Breaker)
	}
	return given.Breaker
}
