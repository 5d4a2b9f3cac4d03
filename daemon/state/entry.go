package state

import (
	"bytes"
	"encoding/json"

	"github.com/klauspost/compress/zstd"

	"github.com/hpad/hpad/policy"
)

// An entry of the history is one line of JSON. The inputs of its decision are a second line;
// both are compressed. Readers of the history do not decode the second line.

// recordedInputs are the inputs of a decision and the version of the rules that made it.
type recordedInputs struct {
	Engine int `json:"engine"`
	policy.Inputs
}

var (
	entryEncoder = must(zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithWindowSize(256<<10), zstd.WithEncoderCRC(false)))
	entryDecoder = must(zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderMaxMemory(64<<20)))
)

// The first call creates the encoder's channels. Channels of a synctest bubble cannot be used
// outside of it.
func init() { entryEncoder.EncodeAll(nil, nil) }

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func sealEntry(key string, e *Entry) ([]byte, error) {
	if e.Inputs == nil {
		return sealJSON(key, e)
	}
	var lines bytes.Buffer
	encoder := json.NewEncoder(&lines)
	if err := encoder.Encode(e); err != nil {
		return nil, err
	}
	if err := encoder.Encode(recordedInputs{e.Engine, *e.Inputs}); err != nil {
		return nil, err
	}
	sealed := make([]byte, sealSize, sealSize+lines.Len()/2)
	return sealInPlace(compressedFormat, key, entryEncoder.EncodeAll(lines.Bytes(), sealed)), nil
}

func unsealEntry(key string, sealed []byte, e *Entry) error {
	text, _, err := entryLines(key, sealed)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, e)
}

// entryLines returns the JSON of an entry and of its inputs; the latter may be empty.
func entryLines(key string, sealed []byte) (text, inputs []byte, err error) {
	lines, err := unseal(key, sealed)
	if err != nil {
		return nil, nil, err
	}
	if sealed[0] == compressedFormat {
		if lines, err = entryDecoder.DecodeAll(lines, nil); err != nil {
			return nil, nil, err
		}
	}
	text, inputs, _ = bytes.Cut(lines, []byte("\n"))
	return text, inputs, nil
}
