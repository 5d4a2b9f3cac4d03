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
	// Breaker holds all scale-downs of the fleet for its window where its autoscalers
	// together would take away more of its instances than that within the window; left
	// out there is none. Not with compat = "strict".
	Breaker *Breaker `toml:"breaker"`
}

// fleetFields are the keys of every fleet, kind among them, which is not named among
// those that are allowed.
var fleetFields = func() settings.Fields {
	fields := settings.FieldsOf(reflect.TypeFor[fleetTable]())
	byKey := map[string]reflect.StructField{kindKey: {}}
	maps.Copy(byKey, fields.ByKey)
	return settings.Fields{Keys: fields.Keys, ByKey: byKey}
}()

// Breaker bounds what the autoscalers of a fleet take away together.
type Breaker struct {
	// MaxRemoved is the share of the fleet's instances, "1%" to "100%", rounded up.
	MaxRemoved Percent `toml:"max_removed" min:"1%" max:"100%" must:"from \"1%\" to \"100%\""`
	// Window is the time over which they are counted, and for which scale-downs are held:
	// 1m to 24h.
	Window time.Duration `toml:"window" default:"10m" min:"1m" max:"24h" must:"from \"1m\" to \"24h\""`
}

// String returns the breaker as "30% in 10m0s".
func (b Breaker) String() string { return fmt.Sprintf("%s in %s", b.MaxRemoved, b.Window) }

// Allows returns how many of so many instances may be taken away.
func (b Breaker) Allows(instances int64) int64 {
	return (instances*int64(b.MaxRemoved) + 99) / 100
}

// readBreaker returns the breaker of a fleet's table; nil where it has none or there are
// mistakes.
func (t *table) readBreaker(strict bool) *Breaker {
	const key = "breaker"
	raw, ok := t.raw[key]
	if !ok {
		return nil
	}
	if strict {
		t.add(key, "", `is not with compat = "strict": an HPA knows nothing of the others`)
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
