package state

import (
	"bytes"
	"fmt"
	"time"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets/clock"
)

// checkValue returns an error if a value cannot be decoded.
func checkValue(path []string, key, value []byte) error {
	switch {
	case path[0] == string(autoscalersBucket):
		_, err := unsealRecord(string(key), value)
		return err
	case path[0] == string(entriesBucket):
		var entry Entry
		return unsealEntry(string(key), value, &entry)
	case path[0] == string(metaBucket):
		return checkMeta(key, value)
	}
	_, err := unseal(sealKey(path, key), value)
	return err
}

// checkMeta is like checkValue, but for metaBucket. For an unknown key, it checks only the
// checksum.
func checkMeta(key, value []byte) error {
	var into any
	switch {
	case bytes.Equal(key, lastRoundKey):
		into = new(time.Time)
	case bytes.Equal(key, clockKey):
		into = new(clock.State)
	case bytes.Equal(key, lossesKey):
		into = new([]Loss)
	case bytes.HasPrefix(key, []byte(pausePrefix)):
		into = new(policy.Pause)
	case bytes.HasPrefix(key, []byte(removalsPrefix)):
		into = new(Removals)
	default:
		_, err := unseal(string(key), value)
		return err
	}
	return unsealJSON(string(key), value, into)
}

func valueName(path []string, key []byte) string {
	switch path[0] {
	case string(autoscalersBucket):
		return fmt.Sprintf("autoscaler %q", key)
	case string(entriesBucket):
		if len(key) >= timeSize {
			return fmt.Sprintf("entry of autoscaler %q at %s", key[timeSize:], keyTime(key).Format(time.RFC3339))
		}
	case string(fleetsBucket):
		if len(path) > 1 {
			return fmt.Sprintf("fleet %q: %q", path[1], key)
		}
	}
	return fmt.Sprintf("bucket %q: %q", path, key)
}
