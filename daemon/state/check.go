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

// Report describes a state directory that no daemon uses.
type Report struct {
	Dir   string       `json:"state_dir"`
	Files []FileReport `json:"files"`
	Kept  []string     `json:"set_aside,omitempty"`
}

// FileReport describes one file.
type FileReport struct {
	Path  string `json:"path"`
	Bytes int64  `json:"bytes"`
	// Format is the format version of the file.
	Format string `json:"format,omitempty"`
	// Values maps each bucket to its number of valid values.
	Values map[string]int `json:"values,omitempty"`
	// Problems lists the first 20 problems, each with its key.
	Problems []string `json:"problems,omitempty"`
	// Consequence describes how the problems affect the next start.
	Consequence string `json:"consequence,omitempty"`
}

const maxProblems = 20

// Problems returns the number of files with problems.
func (r *Report) Problems() int {
	count := 0
	for i := range r.Files {
		if len(r.Files[i].Problems) > 0 {
			count++
		}
	}
	return count
}

// Check verifies every page and value in a state directory and changes nothing. The error is a
// [HeldError] while a daemon uses the directory, and a [fs.ErrPermission] if the directory cannot
// be read.
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
			return report, fmt.Errorf("%w: run it as root or as the user of hpad, for example \"runuser -u hpad -- hpad state check\"", err)
		}
		if err != nil {
			file.Problems = append(file.Problems, err.Error())
		}
		if len(file.Problems) > 0 {
			file.Consequence = "the next start sets it aside and creates an empty history; restore a copy to keep the history"
			if name == stateName {
				file.Consequence = "the next start sets it aside and fails; the start after that creates an empty state without windows, rates and pauses; restore a copy or import an export to keep them"
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
		return report, errors.Join(found, d.close()) // the remaining values prove nothing
	}
	err = d.view(func(tx *bolt.Tx) error {
		if meta := tx.Bucket(metaBucket); meta != nil {
			report.Format = string(meta.Get(formatKey))
		}
		return eachValue(tx, func(path []string, key, value []byte) error {
			if isFormat(path, key) {
				return nil
			}
			if err := checkValue(path, key, value); err != nil {
				report.problem(fmt.Sprintf("%s: %v", valueName(path, key), err))
				return nil
			}
			report.Values[path[0]]++
			return nil
		})
	})
	if found != nil && len(report.Problems) == 0 { // the problem is not in a value
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

// checkMeta does the same as checkValue for metaBucket. For an unknown key, it checks only the
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
