package state

import (
	"bytes"
	"fmt"

	bolt "go.etcd.io/bbolt"

	"github.com/hpad/hpad/policy"
)

// pausePrefix is the prefix of pause keys in metaBucket.
const pausePrefix = "pause/"

func pauseKey(scope policy.Scope) string {
	switch {
	case scope.Breaker:
		return pausePrefix + "b/" + scope.Fleet
	case scope.Autoscaler != "":
		return pausePrefix + "a/" + scope.Autoscaler
	case scope.Fleet != "":
		return pausePrefix + "f/" + scope.Fleet
	}
	return pausePrefix
}

func loadPauses(meta *bolt.Bucket) ([]policy.Pause, error) {
	var pauses []policy.Pause
	cursor, prefix := meta.Cursor(), []byte(pausePrefix)
	for key, sealed := cursor.Seek(prefix); bytes.HasPrefix(key, prefix); key, sealed = cursor.Next() {
		var pause policy.Pause
		if err := unsealJSON(string(key), sealed, &pause); err != nil {
			return nil, fmt.Errorf("%q: %w", key, err)
		}
		pauses = append(pauses, pause)
	}
	return pauses, nil
}

func sealPauses(pauses map[policy.Scope]*policy.Pause, meta map[string][]byte) error {
	for scope, pause := range pauses {
		err := checkKey(scope.Autoscaler + scope.Fleet)
		if err != nil && scope != (policy.Scope{}) {
			return fmt.Errorf("write the pause of %s: %w", scope, err)
		}
		key := pauseKey(scope)
		meta[key] = nil
		if pause == nil {
			continue
		}
		if meta[key], err = sealJSON(key, pause); err != nil {
			return fmt.Errorf("write the pause of %s: %w", scope, err)
		}
	}
	return nil
}
