package nomad

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/hashicorp/nomad/api"
	"github.com/klauspost/compress/zstd"
)

// Records are pressed: those of one page are much alike. Both are safe for concurrent use.
var (
	presser  = must(zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithWindowSize(largestPlain)))
	unpacker = must(zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(64<<20)))
)

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// textOf returns records as the text of a page, and how many bytes they are: for each the
// length of its key, that, the length of its value, and that; compressed, in base64.
func textOf(records map[string][]byte) (text string, size int) {
	if len(records) == 0 {
		return "", 0
	}
	var plain []byte
	for _, key := range slices.Sorted(maps.Keys(records)) {
		plain = append(binary.AppendUvarint(plain, uint64(len(key))), key...)
		plain = append(binary.AppendUvarint(plain, uint64(len(records[key]))), records[key]...)
	}
	return base64.RawStdEncoding.EncodeToString(presser.EncodeAll(plain, nil)), len(plain)
}

// recordsOf returns the records of a page.
func recordsOf(page *api.Variable) (map[string][]byte, error) {
	records := map[string][]byte{}
	pressed, err := base64.RawStdEncoding.DecodeString(page.Items[recordsItem])
	if err == nil && len(pressed) > 0 {
		var plain []byte
		if plain, err = unpacker.DecodeAll(pressed, nil); err == nil {
			err = split(plain, records)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("the variable %q of Nomad has no state of hpad: %w", page.Path, err)
	}
	return records, nil
}

var errCut = errors.New("it ends too soon")

// split adds what textOf put together.
func split(plain []byte, records map[string][]byte) error {
	next := func() ([]byte, bool) {
		length, n := binary.Uvarint(plain)
		if n <= 0 || length > uint64(len(plain)-n) {
			return nil, false
		}
		part := plain[n : n+int(length)]
		plain = plain[n+int(length):]
		return part, true
	}
	for len(plain) > 0 {
		key, ok := next()
		value, also := next()
		if !ok || !also {
			return errCut
		}
		records[string(key)] = value
	}
	return nil
}

// apply changes records, also to what they are: a write that is on its way may have done
// otherwise, and is to fail.
func apply(records, changes map[string][]byte) {
	for key, value := range changes {
		if value == nil {
			delete(records, key)
		} else {
			records[key] = value
		}
	}
}
