package state

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"time"

	bolt "go.etcd.io/bbolt"
	"golang.org/x/sync/errgroup"

	"github.com/hpad/hpad/policy"
)

// Verification counts the decisions of a history that were made again. Each one is
// identical, different or not verifiable.
type Verification struct {
	Checked   int
	Identical int
	// Different counts those that come out otherwise, and entries that are damaged.
	Different int
	// NotVerifiable counts those of other versions of hpad.
	NotVerifiable int
	// Differences are the first of those that are different, oldest first, at most 100.
	Differences []Difference
}

// MaxDifferences is how many differences are told at most.
const MaxDifferences = 100

// Difference is a decision that comes out otherwise than it was recorded.
type Difference struct {
	Autoscaler string
	Time       time.Time
	// Error is why the decision cannot be made again, as a damaged entry; empty where
	// it was, and Fields are what is different then.
	Error  string
	Fields []DifferentField
}

// DifferentField is a field of a decision's JSON, as "stabilization.replicas", with its
// value as JSON as it was recorded, and as it comes out now; empty where there is none.
type DifferentField struct {
	Field, Recorded, Now string
}

// verifiedAtOnce is how many entries are verified in one transaction: a long one would
// keep the file from using its free pages again, and from being renewed.
const verifiedAtOnce = 2000

// Verify is as [Store] has it.
func (s *store) Verify(ctx context.Context, name string, from, to time.Time) (Verification, error) {
	select {
	case s.verifying <- struct{}{}:
	case <-ctx.Done():
		return Verification{}, context.Cause(ctx)
	}
	defer func() { <-s.verifying }()
	var found Verification
	var err error
	if name != "" {
		err = checkKey(name)
	}
	for next := timeKeyFrom(from); err == nil && next != nil; {
		err = s.history.view(func(tx *bolt.Tx) error {
			var entries []foundEntry
			entries, next = entriesFrom(tx, name, next, to, verifiedAtOnce)
			return found.verifyAll(ctx, entries)
		})
	}
	if err != nil {
		return Verification{}, fmt.Errorf("verify the history in %q: %w", s.history.path, err)
	}
	return found, nil
}

func timeKeyFrom(from time.Time) []byte {
	if from.IsZero() {
		return make([]byte, timeSize)
	}
	return timeKey(from)
}

// foundEntry is an entry as the file has it; sealed is nil where "names" alone has it.
type foundEntry struct{ key, sealed []byte }

func (e foundEntry) name() string { return string(e.key[timeSize:]) }

// entriesFrom returns the entries of an autoscaler, or of all, from a key on, oldest
// first, at most so many, and the key after them; nil when those were the last.
func entriesFrom(tx *bolt.Tx, name string, from []byte, to time.Time, most int) (found []foundEntry, next []byte) {
	entries := tx.Bucket(entriesBucket)
	cursor, lowest, prefix := entries.Cursor(), from, []byte(nil)
	if name != "" {
		prefix = nameKey(name, nil)
		cursor, lowest = tx.Bucket(namesBucket).Cursor(), append(prefix[:len(prefix):len(prefix)], from...)
	}
	for key, value := cursor.Seek(lowest); key != nil && bytes.HasPrefix(key, prefix); key, value = cursor.Next() {
		at := key[len(prefix):]
		if len(at) < timeSize || !to.IsZero() && bytes.Compare(at[:timeSize], timeKey(to)) >= 0 {
			break
		}
		if len(found) == most {
			return found, bytes.Clone(at)
		}
		if name != "" {
			at = entryKey(at, name)
			value = entries.Get(at)
		}
		found = append(found, foundEntry{at, value})
	}
	return found, nil
}

// verifyAll verifies entries on all processors.
func (v *Verification) verifyAll(ctx context.Context, entries []foundEntry) error {
	results := make([]*Difference, len(entries))
	shares := runtime.GOMAXPROCS(0)
	workers, ctx := errgroup.WithContext(ctx)
	for share := range shares {
		workers.Go(func() error {
			for i := share; i < len(entries); i += shares {
				if err := ctx.Err(); err != nil {
					return err
				}
				results[i] = entries[i].verify()
			}
			return nil
		})
	}
	if err := workers.Wait(); err != nil {
		return err
	}
	for _, difference := range results {
		if difference == noDecision {
			continue
		}
		v.Checked++
		switch difference {
		case nil:
			v.Identical++
		case notVerifiable:
			v.NotVerifiable++
		default:
			v.Different++
			if len(v.Differences) < MaxDifferences {
				v.Differences = append(v.Differences, *difference)
			}
		}
	}
	return nil
}

// notVerifiable stands for an entry of another version, noDecision for a reload.
var notVerifiable, noDecision = &Difference{}, &Difference{}

// verify makes the decision of an entry again and returns the difference; nil if there is
// none.
func (e foundEntry) verify() (difference *Difference) {
	err := guard(func() error {
		text, recorded, err := entryLines(string(e.key), e.sealed)
		switch {
		case err != nil:
			return err
		case len(recorded) == 0:
			difference = notVerifiable
			if bytes.Contains(text, []byte(`"reload":`)) {
				difference = noDecision
			}
			return nil
		}
		var inputs recordedInputs
		if err := json.Unmarshal(recorded, &inputs); err != nil {
			return fmt.Errorf("inputs: %w", err)
		}
		if inputs.Engine != policy.Engine {
			difference = notVerifiable
			return nil
		}
		difference, err = e.compare(text, inputs.Decide().Explained())
		return err
	})
	if err != nil {
		difference = &Difference{Autoscaler: e.name(), Time: keyTime(e.key), Error: err.Error()}
	}
	return difference
}

// compare compares an entry's JSON with what begins that of one with another decision. The
// text is the same where nothing is different, and what is different is looked for only
// where it is not.
func (e foundEntry) compare(text []byte, again policy.Decision) (*Difference, error) {
	head := struct {
		Autoscaler string          `json:"autoscaler"`
		Time       time.Time       `json:"time"`
		Decision   policy.Decision `json:"decision"`
	}{e.name(), again.Time, again}
	decided, err := json.Marshal(&head)
	if err != nil {
		return nil, err
	}
	same := bytes.TrimSuffix(decided, []byte("}"))
	if rest, ok := bytes.CutPrefix(text, same); ok && len(rest) > 0 && (rest[0] == ',' || rest[0] == '}') {
		return nil, nil
	}
	var recorded, now struct {
		Autoscaler string         `json:"autoscaler"`
		Decision   map[string]any `json:"decision"`
	}
	if err := decodeNumbers(text, &recorded); err != nil {
		return nil, err
	}
	if err := decodeNumbers(decided, &now); err != nil {
		return nil, err
	}
	fields := differentFields("", recorded.Decision, now.Decision)
	if len(fields) == 0 && recorded.Autoscaler == now.Autoscaler {
		return nil, nil
	}
	return &Difference{Autoscaler: e.name(), Time: keyTime(e.key), Fields: fields}, nil
}

// decodeNumbers decodes JSON and keeps numbers as they are written.
func decodeNumbers(text []byte, value any) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	return decoder.Decode(value)
}

// differentFields returns the innermost fields of JSON that are different, in order.
func differentFields(path string, recorded, now any) []DifferentField {
	if reflect.DeepEqual(recorded, now) {
		return nil
	}
	before, after := parts(recorded), parts(now)
	if before == nil || after == nil {
		return []DifferentField{{Field: path, Recorded: jsonText(recorded), Now: jsonText(now)}}
	}
	var found []DifferentField
	names := slices.Sorted(maps.Keys(before))
	names = append(names, slices.Sorted(maps.Keys(after))...)
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		found = append(found, differentFields(strings.TrimPrefix(path+"."+name, "."), before[name], after[name])...)
	}
	return found
}

// parts returns the fields of an object or the elements of a list by name; nil for
// another value.
func parts(value any) map[string]any {
	switch value := value.(type) {
	case map[string]any:
		return value
	case []any:
		elements := map[string]any{}
		for i, element := range value {
			elements[fmt.Sprint(i)] = element
		}
		return elements
	}
	return nil
}

func jsonText(value any) string {
	if value == nil {
		return ""
	}
	text, err := json.Marshal(value)
	if err != nil { // it came out of JSON
		return err.Error()
	}
	return string(text)
}
