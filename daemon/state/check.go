package state

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets/clock"
)

// Report is what is found in a state directory that no daemon holds.
type Report struct {
	Dir   string       `json:"state_dir"`
	Files []FileReport `json:"files"`
	Kept  []string     `json:"set_aside,omitempty"`
}

// FileReport is what is found in one file.
type FileReport struct {
	Path  string `json:"path"`
	Bytes int64  `json:"bytes"`
	// Format is the file's; this hpad reads formats up to its own.
	Format string `json:"format,omitempty"`
	// Values counts those that are fine, by their bucket.
	Values map[string]int `json:"values,omitempty"`
	// Problems are what is wrong, each with the key that it is about; of many the first.
	Problems []string `json:"problems,omitempty"`
	// Consequence is what a start does about that; empty where nothing is wrong.
	Consequence string `json:"consequence,omitempty"`
}

// maxProblems bounds how many problems of a file are told.
const maxProblems = 20

// Problems returns how many files have any.
func (r *Report) Problems() int {
	count := 0
	for i := range r.Files {
		if len(r.Files[i].Problems) > 0 {
			count++
		}
	}
	return count
}

// Check looks at every page and value of a state directory, and changes nothing. The
// error is a [HeldError] while a daemon holds it, which has looked when it started, and a
// [fs.ErrPermission] for who may not read it.
func Check(dir string) (Report, error) {
	report := Report{Dir: dir}
	for _, name := range []string{stateName, historyName} {
		path := filepath.Join(dir, name)
		file, err := checkFile(path)
		var held *HeldError
		switch {
		case errors.As(err, &held):
			return report, err
		case errors.Is(err, fs.ErrPermission):
			return report, fmt.Errorf("%w: nothing is known of it; ask as root or as the user that hpad runs as, as by \"runuser -u hpad -- hpad state check\"", err)
		}
		if err != nil {
			file.Problems = append(file.Problems, err.Error())
		}
		if len(file.Problems) > 0 {
			file.Consequence = "hpad sets it aside when it starts and begins with an empty one, without the history of decisions; put a copy back to keep that"
			if name == stateName {
				file.Consequence = "hpad sets it aside when it starts and ends; started again it begins with an empty one, without windows, rates, pauses and what else it remembered; put a copy back, or import an export, to keep them"
			}
		}
		report.Files = append(report.Files, file)
		report.Kept = append(append(report.Kept, asideNames(path, "damaged")...), asideNames(path, "replaced")...)
	}
	return report, nil
}

func checkFile(path string) (FileReport, error) {
	report := FileReport{Path: path, Values: map[string]int{}}
	info, err := os.Stat(path)
	if err != nil {
		return report, err
	}
	report.Bytes = info.Size()
	if report.Bytes == 0 {
		return report, errEmpty
	}
	d, err := openReadOnly(path)
	if err != nil {
		return report, err
	}
	d.buckets = buckets[filepath.Base(path)]
	found := d.verify()
	if cut := (*cutError)(nil); errors.As(found, &cut) {
		return report, errors.Join(found, d.close()) // what is left of its values says nothing of them
	}
	err = d.view(func(tx *bolt.Tx) error {
		if meta := tx.Bucket(metaBucket); meta != nil {
			report.Format = string(meta.Get(formatKey))
		}
		return tx.ForEach(func(name []byte, bucket *bolt.Bucket) error {
			report.values([]string{string(name)}, bucket)
			return nil
		})
	})
	if found != nil && len(report.Problems) == 0 { // it is not in a value
		report.problem(found.Error())
	}
	if err != nil {
		report.problem(err.Error())
	}
	return report, d.close()
}

func (r *FileReport) problem(text string) {
	if len(r.Problems) < maxProblems {
		r.Problems = append(r.Problems, text)
	}
}

func (r *FileReport) values(path []string, bucket *bolt.Bucket) {
	_ = bucket.ForEach(func(key, value []byte) error {
		switch {
		case value == nil:
			r.values(append(path[:len(path):len(path)], string(key)), bucket.Bucket(key))
			return nil
		case path[0] == string(metaBucket) && bytes.Equal(key, formatKey):
			return nil
		}
		if err := checkValue(path, key, value); err != nil {
			r.problem(fmt.Sprintf("%s: %v", valueName(path, key), err))
			return nil
		}
		r.Values[path[0]]++
		return nil
	})
}

// checkValue reports whether a value can be used.
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

// checkMeta reports whether a value of metaBucket, but the format, can be used. One of a
// key that is not known only has to be whole.
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

// valueName says what a value is of.
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
