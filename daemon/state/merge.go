package state

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets/clock"
)

// autoscaler returns the name of the autoscaler that a value belongs to, or "" if the value does
// not belong to an autoscaler.
func (at slot) autoscaler() string {
	if at.bucket == string(autoscalersBucket) {
		return at.key
	}
	if name, is := strings.CutPrefix(at.key, pausePrefix+"a/"); is && at.bucket == string(metaBucket) {
		return name
	}
	return ""
}

// ofFleet returns the fleet to which a value belongs directly, or "" if the value belongs to an
// autoscaler or to no fleet.
func (at slot) ofFleet() string {
	if at.fleet != "" || at.bucket != string(metaBucket) {
		return at.fleet
	}
	for _, prefix := range []string{pausePrefix + "f/", pausePrefix + "b/", removalsPrefix} {
		if name, is := strings.CutPrefix(at.key, prefix); is {
			return name
		}
	}
	return ""
}

// Select returns the values of the wanted fleets, and the values that belong to no fleet. The
// argument fleets maps autoscalers to fleets.
func Select(values map[string][]byte, fleets map[string]string, wanted func(fleet string) bool) map[string][]byte {
	selected := make(map[string][]byte, len(values))
	for key, value := range values {
		at, _ := slotOf(key)
		fleet := at.ofFleet()
		name := at.autoscaler()
		if name != "" {
			fleet = fleets[name]
		}
		if fleet == "" && name == "" || wanted(fleet) {
			selected[key] = value
		}
	}
	return selected
}

// FleetsOf returns the fleet of each autoscaler with a record in values. The map values has the
// same keys as Records.
func FleetsOf(values map[string][]byte) (map[string]string, error) {
	fleets := map[string]string{}
	for key, value := range values {
		name, record, err := RecordIn(key, value)
		if err != nil {
			return nil, fmt.Errorf("autoscaler %q: %w", name, err)
		}
		if name != "" {
			fleets[name] = record.Target.Fleet
		}
	}
	return fleets, nil
}

// SnapshotOf decodes the values of [Records] like [Store.Load], but without removals.
func SnapshotOf(values map[string][]byte) (Snapshot, error) {
	times, err := timesOf(values)
	snapshot := Snapshot{LastRound: times.lastRound, Clock: times.clock, Autoscalers: map[string]Record{}}
	for key, value := range values {
		name, record, failed := RecordIn(key, value)
		if name != "" {
			snapshot.Autoscalers[name] = replayed(record, times.lastRound)
		}
		if at, _ := slotOf(key); at.bucket == string(metaBucket) && strings.HasPrefix(at.key, pausePrefix) {
			var pause policy.Pause
			failed = unsealJSON(at.key, value, &pause)
			snapshot.Pauses = append(snapshot.Pauses, pause)
		}
		if failed != nil {
			err = errors.Join(err, fmt.Errorf("%q: %w", key, failed))
		}
	}
	return snapshot, err
}

var (
	lastRoundName = slot{bucket: string(metaBucket), key: string(lastRoundKey)}.String()
	clockName     = slot{bucket: string(metaBucket), key: string(clockKey)}.String()
)

type times struct {
	lastRound time.Time
	clock     clock.State
}

func timesOf(values map[string][]byte) (t times, err error) {
	if sealed := values[lastRoundName]; sealed != nil {
		err = unsealJSON(string(lastRoundKey), sealed, &t.lastRound)
	}
	if sealed := values[clockName]; sealed != nil {
		err = errors.Join(err, unsealJSON(string(clockKey), sealed, &t.clock))
	}
	return t, err
}

// merge merges the values of several fleets and of the host into the values of a single hpad. The
// result uses the latest clock and the latest round for all autoscalers, so merge first updates
// each autoscaler's memory to the last round of its own fleet.
func merge(all []map[string][]byte) (map[string][]byte, error) {
	var latest times
	from := make([]times, len(all))
	for i, values := range all {
		var err error
		if from[i], err = timesOf(values); err != nil {
			return nil, err
		}
		latest.lastRound = clock.Later(latest.lastRound, from[i].lastRound)
		if from[i].clock.Time.After(latest.clock.Time) {
			latest.clock = from[i].clock
		}
	}
	m := merger{latest: latest, whole: map[string][]byte{}, through: map[string]time.Time{}}
	for i, values := range all {
		for key, sealed := range values {
			if err := m.add(key, sealed, from[i].lastRound); err != nil {
				return nil, fmt.Errorf("%q: %w", key, err)
			}
		}
	}
	meta, err := sealMeta(Changes{LastRound: latest.lastRound, Clock: latest.clock})
	for key, sealed := range meta {
		m.whole[slot{bucket: string(metaBucket), key: key}.String()] = sealed
	}
	return m.whole, err
}

type merger struct {
	latest times
	whole  map[string][]byte
	// through maps each autoscaler to the Through time of its latest record.
	through map[string]time.Time
}

func (m *merger) add(key string, sealed []byte, lastRound time.Time) (err error) {
	at, known := slotOf(key)
	switch {
	case key == lastRoundName, key == clockName:
		return nil
	case !known:
		return &formatError{Path: key, Version: formatVersion + 1}
	case at.bucket == string(autoscalersBucket):
		sealed, err = m.record(at.key, sealed, lastRound)
	case at.bucket == string(metaBucket) && at.key == pausePrefix:
		sealed, err = laterPause(m.whole[key], sealed)
	}
	if sealed != nil {
		m.whole[key] = sealed
	}
	return err
}

// record returns a record as of its fleet's last round. It returns nil if a later record of the
// same autoscaler exists, because the autoscaler was moved to a different fleet.
func (m *merger) record(name string, sealed []byte, lastRound time.Time) ([]byte, error) {
	record, err := unsealRecord(name, sealed)
	if err != nil || m.through[name].After(record.Through) {
		return nil, err
	}
	m.through[name] = record.Through
	if lastRound.Equal(m.latest.lastRound) {
		return sealed, nil
	}
	record = replayed(record, lastRound)
	record.Replay = nil
	return sealRecord(name, record)
}

// laterPause returns the later of two pauses with the scope of all autoscalers. first may be nil.
func laterPause(first, second []byte) ([]byte, error) {
	if first == nil {
		return second, nil
	}
	var before, pause policy.Pause
	if err := errors.Join(unsealJSON(pausePrefix, first, &before), unsealJSON(pausePrefix, second, &pause)); err != nil {
		return nil, err
	}
	if before.Since.After(pause.Since) {
		return first, nil
	}
	return second, nil
}
