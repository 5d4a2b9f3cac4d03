package state

import (
	"errors"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"
)

// TestGroupOfWrites writes together what comes with entries and what does not.
func TestGroupOfWrites(t *testing.T) {
	put := func(key string) map[slot][]byte {
		return map[slot][]byte{{bucket: string(metaBucket), key: key}: seal(key, nil)}
	}
	for _, test := range []struct {
		name    string
		history error
	}{{name: "both"}, {name: "without a history", history: errors.New("no disk")}} {
		t.Run(test.name, func(t *testing.T) {
			s := open(t, t.TempDir()).(*store)
			defer closeStore(t, s)
			if test.history != nil {
				s.history.broken.Store(&panicError{test.history})
			}
			with := &write{values: put("with")}
			with.sealEntries([]Entry{sampleEntry("a", 1)})
			without := &write{values: put("without")}
			s.writeAll([]*write{with, without})
			if without.err != nil {
				t.Errorf("what comes without entries is not written: %v", without.err)
			}
			if (with.err != nil) != (test.history != nil) || with.err != nil && !strings.Contains(with.err.Error(), s.history.path) {
				t.Errorf("what comes with entries is answered with %v", with.err)
			}
			var got []string
			for _, key := range []string{"with", "without"} {
				_ = s.state.view(func(tx *bolt.Tx) error {
					if tx.Bucket(metaBucket).Get([]byte(key)) != nil {
						got = append(got, key)
					}
					return nil
				})
			}
			if strings.Join(got, " ") != "with without" {
				t.Errorf("written are %v, want both: a history that fails keeps no state from being written", got)
			}
		})
	}
}
