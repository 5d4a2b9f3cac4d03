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
	// Missing is short, and changes when a metric begins or ends to fail.
	Missing []policy.MissingMetric `json:"missing,omitempty"`
}

func sealRecord(name string, r Record) ([]byte, error) {
	stored := storedRecord{Record: r, Memory: storedMemory{
		Recommendations: pack(r.Memory.Recommendations, (*packer).recommendation),
		ScaleUpEvents:   pack(r.Memory.ScaleUpEvents, (*packer).event),
		ScaleDownEvents: pack(r.Memory.ScaleDownEvents, (*packer).event),
		Missing:         r.Memory.Missing,
	}}
	return sealJSON(name, &stored)
}

// RecordIn returns the record of the autoscaler that [Records] have a value of; an empty
// name for a value of something else.
func RecordIn(key string, value []byte) (name string, r Record, err error) {
	at, ok := slotOf(key)
	if !ok || at.bucket != string(autoscalersBucket) || value == nil {
		return "", Record{}, nil
	}
	r, err = unsealRecord(at.key, value)
	return at.key, r, err
}

func unsealRecord(name string, sealed []byte) (Record, error) {
	var stored storedRecord
	if err := unsealJSON(name, sealed, &stored); err != nil {
		return Record{}, err
	}
	up, upErr := unpack(stored.Memory.ScaleUpEvents, (*unpacker).event)
	down, downErr := unpack(stored.Memory.ScaleDownEvents, (*unpacker).event)
	recommendations, err := unpack(stored.Memory.Recommendations, (*unpacker).recommendation)
	r := stored.Record
	r.Memory = policy.Memory{Recommendations: recommendations, ScaleUpEvents: up, ScaleDownEvents: down, Missing: stored.Memory.Missing}
	return r, errors.Join(err, upErr, downErr)
}

// PackMemory adds a memory to packed, but for Missing, in a fraction of what it takes
// otherwise.
func PackMemory(packed []byte, m policy.Memory) []byte {
	p := packer{packed: packed}
	p.begin(len(m.Recommendations))
	for _, r := range m.Recommendations {
		p.recommendation(r)
	}
	for _, events := range [][]policy.ScaleEvent{m.ScaleUpEvents, m.ScaleDownEvents} {
		p.begin(len(events))
		for _, e := range events {
			p.event(e)
		}
	}
	return p.packed
}

// UnpackMemory replaces a memory by the one of which PackMemory made packed, in the room
// that its lists have; Missing stays. Nothing packed is the zero memory.
func UnpackMemory(packed []byte, m *policy.Memory) {
	u := unpacker{packed: packed}
	m.Recommendations = m.Recommendations[:0]
	for range u.begin() {
		m.Recommendations = append(m.Recommendations, u.recommendation())
	}
	for _, events := range []*[]policy.ScaleEvent{&m.ScaleUpEvents, &m.ScaleDownEvents} {
		*events = (*events)[:0]
		for range u.begin() {
			*events = append(*events, u.event())
		}
	}
}

// begin begins a list of so many entries.
func (p *packer) begin(entries int) {
	p.seconds = 0
	p.number(int64(entries))
}

// begin returns how many entries the list that begins has.
func (u *unpacker) begin() int64 {
	u.seconds = 0
	if len(u.packed) == 0 {
		return 0
	}
	return u.number()
}

// Sizes of packed entries: the least one may have, and a usual one.
const (
	minPacked  = 3
	usualEntry = 6
)

// pack packs a list, of whose elements each adds one.
func pack[E any](list []E, each func(*packer, E)) []byte {
	if len(list) == 0 {
		return nil
	}
	p := packer{packed: make([]byte, 0, usualEntry*(len(list)+1))}
	for _, element := range list {
		each(&p, element)
	}
	return p.packed
}

// unpack returns the list that pack packed, of which each reads one element.
func unpack[E any](packed []byte, each func(*unpacker) E) ([]E, error) {
	if len(packed) == 0 {
		return nil, nil
	}
	list := make([]E, 0, len(packed)/minPacked)
	u := unpacker{packed: packed}
	for len(u.packed) > 0 && !u.short {
		list = append(list, each(&u))
	}
	if u.short {
		return list, errTruncated
	}
	return list, nil
}

func (p *packer) recommendation(r policy.Recommendation) { p.entry(r.Time, r.Replicas) }

func (p *packer) event(e policy.ScaleEvent) {
	p.entry(e.Time, e.Change)
	outdated := int64(0)
	if e.Outdated {
		outdated = 1
	}
	p.number(outdated)
}

func (u *unpacker) recommendation() policy.Recommendation {
	at, replicas := u.entry()
	return policy.Recommendation{Replicas: replicas, Time: at}
}

func (u *unpacker) event() policy.ScaleEvent {
	at, change := u.entry()
	return policy.ScaleEvent{Change: change, Time: at, Outdated: u.number() != 0}
}

type packer struct {
	packed  []byte
	seconds int64 // of the entry before
}

func (p *packer) number(n int64) {
	if -1<<6 <= n && n < 1<<6 { // as most are
		p.packed = append(p.packed, byte(n<<1)^byte(n>>63))
		return
	}
	p.packed = binary.AppendVarint(p.packed, n)
}

func (p *packer) entry(at time.Time, count int32) {
	seconds := at.Unix()
	p.number(seconds - p.seconds)
	p.number(int64(at.Nanosecond()))
	p.number(int64(count))
	p.seconds = seconds
}

type unpacker struct {
	packed  []byte
	seconds int64
	short   bool // the list ends in the middle of an entry
}

func (u *unpacker) number() int64 {
	if len(u.packed) > 0 && u.packed[0] < 1<<7 { // as most are
		n := int64(u.packed[0])
		u.packed = u.packed[1:]
		return n>>1 ^ -(n & 1)
	}
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
