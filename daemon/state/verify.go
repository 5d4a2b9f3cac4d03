package state

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/hpad/hpad/daemon/pages"
	"github.com/hpad/hpad/policy"
)

// Verification counts the verified decisions. Each decision is identical, different or not
// verifiable.
type Verification struct {
	Checked   int
	Identical int
	// Different includes damaged entries.
	Different int
	// NotVerifiable counts the decisions that a different version of hpad made.
	NotVerifiable int
	// Differences lists the newest 100 differences, oldest first.
	Differences []Difference
}

// MaxDifferences is the maximum number of reported differences.
const MaxDifferences = 100

// Difference is a decision whose recomputed result differs from the recorded result.
type Difference struct {
	Autoscaler string
	Time       time.Time
	// Error is the reason why the decision could not be recomputed. It is empty if Fields is set.
	Error  string
	Fields []DifferentField
}

// DifferentField is a field in a decision's JSON, such as "stabilization.replicas", with both
// values as JSON. A value is empty if the field is absent.
type DifferentField struct {
	Field, Recorded, Now string
}

// Verify implements [Store].
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
	for end := endKey(to); err == nil && end != nil; {
		err = s.history.view(func(tx *bolt.Tx) error {
			var entries []storedEntry
			entries, end = entriesBefore(tx, name, from, end)
			for _, entry := range entries {
				if err := ctx.Err(); err != nil {
					return err
				}
				found.add(entry)
			}
			return nil
		})
	}
	if err != nil {
		return Verification{}, fmt.Errorf("verify the history in %q: %w", s.history.path, err)
	}
	slices.Reverse(found.Differences)
	return found, nil
}

// verdict is the result of the verification of one entry.
type verdict int

const (
	identical verdict = iota
	different
	// notVerifiable means that a different version of hpad made the decision.
	notVerifiable
	// noDecision means that the entry is a reload.
	noDecision
)

// add verifies an entry and adds the result to the counts.
func (v *Verification) add(e storedEntry) {
	result, fields, err := e.verify()
	if result == noDecision {
		return
	}
	v.Checked++
	switch result {
	case identical:
		v.Identical++
	case notVerifiable:
		v.NotVerifiable++
	default:
		v.Different++
		if len(v.Differences) == MaxDifferences {
			return
		}
		difference := Difference{Autoscaler: e.name(), Time: keyTime(e.key), Fields: fields}
		if err != nil {
			difference.Error = err.Error()
		}
		v.Differences = append(v.Differences, difference)
	}
}

// verify recomputes the decision in an entry. If the recomputation fails, the verdict is the
// constant different.
func (e storedEntry) verify() (result verdict, fields []DifferentField, err error) {
	err = pages.Catch(func() error {
		text, recorded, err := entryLines(string(e.key), e.sealed)
		switch {
		case err != nil:
			return err
		case len(recorded) == 0 && bytes.Contains(text, []byte(`"reload":`)):
			result = noDecision
			return nil
		case len(recorded) == 0:
			result = notVerifiable
			return nil
		}
		var inputs recordedInputs
		if err := json.Unmarshal(recorded, &inputs); err != nil {
			return fmt.Errorf("inputs: %w", err)
		}
		if inputs.Engine != policy.Engine {
			result = notVerifiable
			return nil
		}
		var same bool
		if same, fields, err = e.compare(text, inputs.Decide().Explained()); !same {
			result = different
		}
		return err
	})
	if err != nil {
		result = different
	}
	return result, fields, err
}

// compare compares an entry with the JSON of the recomputed decision. It decodes both only if their
// texts differ.
func (e storedEntry) compare(text []byte, again policy.Decision) (same bool, fields []DifferentField, err error) {
	head := struct {
		Autoscaler string          `json:"autoscaler"`
		Time       time.Time       `json:"time"`
		Decision   policy.Decision `json:"decision"`
	}{e.name(), again.Time, again}
	decided, err := json.Marshal(&head)
	if err != nil {
		return false, nil, err
	}
	prefix := bytes.TrimSuffix(decided, []byte("}"))
	if rest, ok := bytes.CutPrefix(text, prefix); ok && len(rest) > 0 && (rest[0] == ',' || rest[0] == '}') {
		return true, nil, nil
	}
	var recorded, now struct {
		Autoscaler string         `json:"autoscaler"`
		Decision   map[string]any `json:"decision"`
	}
	if err := errors.Join(decodeNumbers(text, &recorded), decodeNumbers(decided, &now)); err != nil {
		return false, nil, err
	}
	fields = differentFields("", recorded.Decision, now.Decision)
	return len(fields) == 0 && recorded.Autoscaler == now.Autoscaler, fields, nil
}

// decodeNumbers decodes JSON and keeps numbers as text.
func decodeNumbers(text []byte, value any) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	return decoder.Decode(value)
}

// differentFields returns the innermost fields that differ, sorted by path.
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

// parts returns the fields of an object or the elements of a list by name, or nil for other
// values.
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
	if err != nil { // impossible: the value comes from JSON
		return err.Error()
	}
	return string(text)
}
