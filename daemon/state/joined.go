package state

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hpad/hpad/targets/clock"
)

// PartMark is what the key of a fleet's own store has before the name of the part that it
// concerns: "readiness/3f~2-4". Keys without it concern all of the fleet.
const PartMark = "~"

// joined is the state of several parts of a fleet as one. What concerns one autoscaler is
// in the records of its part, what concerns the whole fleet in those of each, and what the
// fleet itself keeps and is of no part in those of the first.
type joined struct {
	names []string
	parts map[string]PartRecords
	of    func(autoscaler string) string
}

// PartRecords are those of a part of a fleet.
type PartRecords struct {
	Records
	// Longest is how long ago at most its state was written last; 0 where that is not known.
	Longest time.Duration
}

// Joined returns the records of several parts of a fleet, by the parts' names, as those
// of one. Of returns the part of an autoscaler.
func Joined(parts map[string]PartRecords, of func(autoscaler string) string) Records {
	return &joined{names: slices.Sorted(maps.Keys(parts)), parts: parts, of: of}
}

// Load is as [Records] has it. What the parts have differently, as parts of several owners
// do, is written back as it is then: pauses of the fleet are in each of them, and all go by
// one clock.
func (j *joined) Load(ctx context.Context, keep func(key string, value []byte) error) error {
	loaded, longest := make([]map[string][]byte, len(j.names)), make([]time.Duration, len(j.names))
	for i, name := range j.names {
		loaded[i], longest[i] = map[string][]byte{}, j.parts[name].Longest
		if err := j.parts[name].Load(ctx, func(key string, value []byte) error {
			loaded[i][key] = value
			return nil
		}); err != nil {
			return err
		}
	}
	whole, err := Combine(loaded, longest)
	if err != nil {
		return err
	}
	if whole, err = removalsBy(whole, byOne); err != nil {
		return err
	}
	whole = Select(whole, func(name string) bool { return slices.Contains(j.names, j.of(name)) }, func(string) bool { return true })
	parts, err := j.split(whole)
	if err != nil {
		return err
	}
	changed, times := make([]map[string][]byte, len(j.names)), make([]map[string][]byte, len(j.names))
	for i, part := range parts {
		changed[i], times[i] = map[string][]byte{}, map[string][]byte{}
		for key, value := range part {
			if value == nil || bytes.Equal(loaded[i][key], value) { // what is of no part stays until it has one
				continue
			}
			if key == lastRoundName || key == clockName {
				times[i][key] = value
			} else {
				changed[i][key] = value
			}
		}
	}
	// A part's times come last: without them what was changed already is read as it was.
	if err := j.write(ctx, changed, times); err != nil {
		return err
	}
	for key, value := range whole {
		if err := keep(key, value); err != nil {
			return err
		}
	}
	return nil
}

// Write is as [Records] has it.
func (j *joined) Write(ctx context.Context, values map[string][]byte) error {
	values, err := removalsBy(values, j.names[0])
	if err != nil {
		return err
	}
	parts, err := j.split(values)
	if err != nil {
		return err
	}
	return j.write(ctx, parts)
}

// write writes to each part what is its own, to all at once: the values of one step once
// those of the steps before are written.
func (j *joined) write(ctx context.Context, steps ...[]map[string][]byte) error {
	var writing errgroup.Group
	for i, name := range j.names {
		writing.Go(func() error {
			for _, values := range steps {
				if len(values[i]) == 0 {
					continue
				}
				if err := j.parts[name].Write(ctx, values[i]); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return writing.Wait()
}

// split returns the values of each part.
func (j *joined) split(values map[string][]byte) ([]map[string][]byte, error) {
	all := make([]map[string][]byte, len(j.names))
	for i := range all {
		all[i] = map[string][]byte{}
	}
	for key, value := range values {
		at, _ := slotOf(key)
		one := slices.Index(j.names, j.partOf(at))
		if name := at.autoscaler(); one < 0 && name != "" {
			return nil, fmt.Errorf("autoscaler %q is in part %s: %w", name, j.of(name), ErrFenced)
		}
		for i := range all {
			switch {
			case one < 0 && at.fleet != "" && i > 0: // of no part here: in the first alone
				all[i][key] = nil
			case one < 0 || one == i:
				all[i][key] = value
			}
		}
	}
	return all, nil
}

// partOf returns the part that a value concerns; empty for all.
func (j *joined) partOf(at slot) string {
	if name := at.autoscaler(); name != "" {
		return j.of(name)
	}
	if _, part, marked := cutLast(at.key, PartMark); marked && at.fleet != "" {
		return part
	}
	return ""
}

func cutLast(text, separator string) (before, after string, found bool) {
	if i := strings.LastIndex(text, separator); i >= 0 {
		return text[:i], text[i+len(separator):], true
	}
	return text, "", false
}

// autoscaler returns the autoscaler that a value is of; empty where it is of none.
func (at slot) autoscaler() string {
	if at.bucket == string(autoscalersBucket) {
		return at.key
	}
	if name, is := strings.CutPrefix(at.key, pausePrefix+"a/"); is && at.bucket == string(metaBucket) {
		return name
	}
	return ""
}

// ofFleet returns the fleet that a value is of; empty where it is of none.
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

// Select returns of the state in records what concerns some autoscalers and fleets alone:
// of what concerns one autoscaler or one fleet that for which the functions report so, and
// all else.
func Select(values map[string][]byte, autoscaler, fleet func(name string) bool) map[string][]byte {
	selected := make(map[string][]byte, len(values))
	for key, value := range values {
		at, _ := slotOf(key)
		if name := at.autoscaler(); name != "" && !autoscaler(name) {
			continue
		}
		if name := at.ofFleet(); name != "" && !fleet(name) {
			continue
		}
		selected[key] = value
	}
	return selected
}

// FleetsOf returns the fleets of the autoscalers of which records have the state, by the
// autoscalers' names.
func FleetsOf(values map[string][]byte) (map[string]string, error) {
	fleets := map[string]string{}
	for key, value := range values {
		at, _ := slotOf(key)
		if at.bucket != string(autoscalersBucket) {
			continue
		}
		record, err := unsealRecord(at.key, value)
		if err != nil {
			return nil, fmt.Errorf("autoscaler %q: %w", at.key, err)
		}
		fleets[at.key] = record.Target.Fleet
	}
	return fleets, nil
}

// The keys of what concerns all autoscalers together.
var (
	lastRoundName = slot{bucket: string(metaBucket), key: string(lastRoundKey)}.String()
	clockName     = slot{bucket: string(metaBucket), key: string(clockKey)}.String()
)

// times are what the state in some records goes by.
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

// Combine returns the state of several shards as one: by the clock that was written last,
// with the windows of each as they are up to its own last completed round. What several
// have of one fleet is that of the last of them, but for pauses, of which the latest counts,
// and for what breakers count. Of records of one autoscaler it is the one that was written
// last: one that has another fleet now is in the shard of the earlier one for a day.
//
// Longest is how long ago each was written last at most, 0 or a nil slice where that is not
// known: of clocks of which one was set wrongly no more is believed than that.
func Combine(shards []map[string][]byte, longest []time.Duration) (map[string][]byte, error) {
	var latest times
	from := make([]times, len(shards))
	for i, values := range shards {
		var err error
		if from[i], err = timesOf(values); err != nil {
			return nil, fmt.Errorf("the times of a shard: %w", err)
		}
		if from[i].clock.Time.After(latest.clock.Time) {
			latest.clock = from[i].clock
		}
	}
	shifts, moves := make([]time.Duration, len(shards)), make([]func(time.Time) time.Time, len(shards))
	for i := range from {
		if behind := latest.clock.Time.Sub(from[i].clock.Time); longest != nil && longest[i] > 0 && behind > longest[i] && !from[i].clock.Time.IsZero() {
			shifts[i] = behind - longest[i]
		}
		moves[i] = func(t time.Time) time.Time {
			if t.IsZero() {
				return t
			}
			return t.Add(shifts[i])
		}
		if round := moves[i](from[i].lastRound); round.After(latest.lastRound) {
			latest.lastRound = round
		}
	}
	c := &combiner{latest: latest, whole: map[string][]byte{}, written: map[string]func() (time.Time, error){}}
	for i, values := range shards {
		c.lastRound, c.shifted, c.move = from[i].lastRound, shifts[i] != 0, moves[i]
		if err := c.add(values); err != nil {
			return nil, err
		}
	}
	return c.whole, c.finish()
}

// combiner makes the state of shards into one.
type combiner struct {
	latest times
	whole  map[string][]byte
	// written returns of each autoscaler when the record in whole was written.
	written map[string]func() (time.Time, error)
	// What follows is of the shard that is added.
	lastRound time.Time
	shifted   bool
	move      func(time.Time) time.Time
}

// add adds the values of a shard, several at once.
func (c *combiner) add(values map[string][]byte) error {
	var guard sync.Mutex
	var adding errgroup.Group
	adding.SetLimit(8)
	for key, sealed := range values {
		if key == lastRoundName || key == clockName {
			continue
		}
		at, known := slotOf(key)
		if !known {
			return &FormatError{Path: key, Version: formatVersion + 1}
		}
		if at.bucket != string(autoscalersBucket) {
			guard.Lock()
			before := c.whole[key]
			guard.Unlock()
			value, err := c.meta(at, before, sealed)
			if err != nil {
				return errors.Join(fmt.Errorf("%q: %w", key, err), adding.Wait())
			}
			guard.Lock()
			c.whole[key] = value
			guard.Unlock()
			continue
		}
		if earlier, err := c.isEarlier(at.key, sealed); earlier || err != nil {
			if err != nil {
				return errors.Join(fmt.Errorf("autoscaler %q: %w", at.key, err), adding.Wait())
			}
			continue
		}
		adding.Go(func() error {
			value, err := c.record(at.key, sealed)
			if err != nil {
				return fmt.Errorf("autoscaler %q: %w", at.key, err)
			}
			guard.Lock()
			defer guard.Unlock()
			c.whole[key] = value
			return nil
		})
	}
	return adding.Wait()
}

// isEarlier reports whether a record was written before the one of an earlier shard.
func (c *combiner) isEarlier(name string, sealed []byte) (bool, error) {
	move := c.move
	written := func() (time.Time, error) {
		record, err := unsealRecord(name, sealed)
		return move(record.Through), err
	}
	if before := c.written[name]; before != nil {
		first, err := before()
		if err != nil {
			return false, err
		}
		if second, err := written(); err != nil || first.After(second) {
			return err == nil, err
		}
	}
	c.written[name] = written
	return false, nil
}

// record returns a record as it is by the common clock and the common last round.
func (c *combiner) record(name string, sealed []byte) ([]byte, error) {
	behind := !c.move(c.lastRound).Equal(c.latest.lastRound)
	if !behind && !c.shifted {
		return sealed, nil
	}
	record, err := unsealRecord(name, sealed)
	if err != nil {
		return nil, err
	}
	if behind {
		record = replayed(record, c.lastRound)
		record.Replay = nil
	}
	if c.shifted {
		record = record.moved(c.move)
	}
	return sealRecord(name, record)
}

// meta returns another value than that of an autoscaler, where an earlier shard has one
// together with that.
func (c *combiner) meta(at slot, before, sealed []byte) ([]byte, error) {
	switch {
	case at.bucket != string(metaBucket):
		return sealed, nil
	case strings.HasPrefix(at.key, removalsPrefix):
		return joinRemovals(at.key, before, sealed, c.move)
	case strings.HasPrefix(at.key, pausePrefix):
		return joinPauses(at.key, before, sealed, c.move)
	}
	return sealed, nil
}

func (c *combiner) finish() error {
	meta, err := sealMeta(Changes{LastRound: c.latest.lastRound, Clock: c.latest.clock})
	for key, sealed := range meta {
		c.whole[slot{bucket: string(metaBucket), key: key}.String()] = sealed
	}
	return err
}
