package state

import (
	"encoding/binary"
	"errors"
	"time"

	"github.com/hpad/hpad/policy"
)

// storedRecord is a Record with its lists packed: as plain JSON they would be
// half of it.
type storedRecord struct {
	Record
	Memory storedMemory `json:"memory"`
}

// storedMemory is a policy.Memory. A list is a sequence of varints: for each
// entry the seconds since the one before (the first: since the Unix epoch), the
// nanoseconds, the count, and for a scale event 1 if it is outdated or else 0.
type storedMemory struct {
	Recommendations []byte `json:"recommendations,omitempty"`
	ScaleUpEvents   []byte `json:"scale_up_events,omitempty"`
	ScaleDownEvents []byte `json:"scale_down_events,omitempty"`
}

func sealRecord(name string, r Record) ([]byte, error) {
	stored := storedRecord{Record: r, Memory: storedMemory{
		Recommendations: packRecommendations(r.Memory.Recommendations),
		ScaleUpEvents:   packEvents(r.Memory.ScaleUpEvents),
		ScaleDownEvents: packEvents(r.Memory.ScaleDownEvents),
	}}
	return sealJSON(name, &stored)
}

func unsealRecord(name string, sealed []byte) (Record, error) {
	var stored storedRecord
	if err := unsealJSON(name, sealed, &stored); err != nil {
		return Record{}, err
	}
	up, upErr := unpackEvents(stored.Memory.ScaleUpEvents)
	down, downErr := unpackEvents(stored.Memory.ScaleDownEvents)
	recommendations, err := unpackRecommendations(stored.Memory.Recommendations)
	r := stored.Record
	r.Memory = policy.Memory{Recommendations: recommendations, ScaleUpEvents: up, ScaleDownEvents: down}
	return r, errors.Join(err, upErr, downErr)
}

// Sizes of packed entries: the least one may have, and a usual one.
const (
	minPacked  = 3
	usualEntry = 6
)

func packRecommendations(list []policy.Recommendation) []byte {
	if len(list) == 0 {
		return nil
	}
	p := packer{packed: make([]byte, 0, usualEntry*(len(list)+1))}
	for _, r := range list {
		p.entry(r.Time, r.Replicas)
	}
	return p.packed
}

func unpackRecommendations(packed []byte) ([]policy.Recommendation, error) {
	if len(packed) == 0 {
		return nil, nil
	}
	list := make([]policy.Recommendation, 0, len(packed)/minPacked)
	u := unpacker{packed: packed}
	for len(u.packed) > 0 && !u.short {
		at, replicas := u.entry()
		list = append(list, policy.Recommendation{Replicas: replicas, Time: at})
	}
	return list, u.err()
}

func packEvents(list []policy.ScaleEvent) []byte {
	if len(list) == 0 {
		return nil
	}
	p := packer{packed: make([]byte, 0, usualEntry*(len(list)+1))}
	for _, e := range list {
		p.entry(e.Time, e.Change)
		outdated := int64(0)
		if e.Outdated {
			outdated = 1
		}
		p.number(outdated)
	}
	return p.packed
}

func unpackEvents(packed []byte) ([]policy.ScaleEvent, error) {
	if len(packed) == 0 {
		return nil, nil
	}
	list := make([]policy.ScaleEvent, 0, len(packed)/minPacked)
	u := unpacker{packed: packed}
	for len(u.packed) > 0 && !u.short {
		at, change := u.entry()
		list = append(list, policy.ScaleEvent{Change: change, Time: at, Outdated: u.number() != 0})
	}
	return list, u.err()
}

// packer writes a list.
type packer struct {
	packed  []byte
	seconds int64 // of the entry before
}

func (p *packer) number(n int64) { p.packed = binary.AppendVarint(p.packed, n) }

func (p *packer) entry(at time.Time, count int32) {
	seconds := at.Unix()
	p.number(seconds - p.seconds)
	p.number(int64(at.Nanosecond()))
	p.number(int64(count))
	p.seconds = seconds
}

// unpacker reads what a packer wrote.
type unpacker struct {
	packed  []byte
	seconds int64
	short   bool // the list ends in the middle of an entry
}

func (u *unpacker) number() int64 {
	n, size := binary.Varint(u.packed)
	if size <= 0 {
		u.short = true
		return 0
	}
	u.packed = u.packed[size:]
	return n
}

func (u *unpacker) entry() (time.Time, int32) {
	u.seconds += u.number()
	nanoseconds := u.number()
	return time.Unix(u.seconds, nanoseconds).UTC(), int32(u.number())
}

func (u *unpacker) err() error {
	if u.short {
		return errTruncated
	}
	return nil
}
