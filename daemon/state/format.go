package state

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/klauspost/compress/zstd"

	"github.com/hpad/hpad/policy"
)

// Format versions of the databases and their values. A value gets a new version if an older
// hpad could misread it.
const (
	// plainFormat is used for databases and JSON values.
	plainFormat = 3
	// compressedFormat is used for history entries with inputs.
	compressedFormat = 4
	// formatVersion is the newest supported version.
	formatVersion = compressedFormat
)

// A sealed value is a format byte, a CRC-32C, and the payload. The checksum covers the format
// byte, the key and the payload: bbolt itself checks only its meta pages.
const sealSize = 5

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

var (
	errTruncated = errors.New("value is truncated")
	errChecksum  = errors.New("checksum does not match")
)

func seal(key string, payload []byte) []byte {
	sealed := make([]byte, sealSize, sealSize+len(payload))
	return sealInPlace(plainFormat, key, append(sealed, payload...))
}

// sealInPlace fills in the format byte and the checksum.
func sealInPlace(format byte, key string, sealed []byte) []byte {
	sealed[0] = format
	binary.BigEndian.PutUint32(sealed[1:], checksum(format, key, sealed[sealSize:]))
	return sealed
}

func checksum(format byte, key string, payload []byte) uint32 {
	sum := crc32.Checksum([]byte{format}, castagnoli)
	sum = crc32.Update(sum, castagnoli, []byte(key))
	return crc32.Update(sum, castagnoli, payload)
}

// unseal returns the payload, which shares memory with sealed.
func unseal(key string, sealed []byte) ([]byte, error) {
	if len(sealed) < sealSize {
		return nil, errTruncated
	}
	version, payload := sealed[0], sealed[sealSize:]
	if checksum(version, key, payload) != binary.BigEndian.Uint32(sealed[1:]) {
		return nil, errChecksum
	}
	if version < plainFormat || version > formatVersion {
		return nil, &formatError{Version: int(version)}
	}
	return payload, nil
}

func sealJSON(key string, value any) ([]byte, error) {
	var sealed bytes.Buffer
	sealed.Write(make([]byte, sealSize))
	if err := json.NewEncoder(&sealed).Encode(value); err != nil {
		return nil, err
	}
	return sealInPlace(plainFormat, key, sealed.Bytes()), nil
}

func unsealJSON(key string, sealed []byte, value any) error {
	payload, err := unseal(key, sealed)
	if err != nil {
		return err
	}
	return json.Unmarshal(payload, value)
}

// formatError is returned for a valid file or value with an unsupported format.
type formatError struct {
	Path    string
	Version int
}

func (e *formatError) Error() string {
	return fmt.Sprintf("%q has format %d, but this hpad supports only formats up to %d: run a newer hpad, or set another state_dir",
		e.Path, e.Version, formatVersion)
}

func sealRecord(name string, r Record) ([]byte, error) { return sealJSON(name, &r) }

func unsealRecord(name string, sealed []byte) (r Record, err error) {
	err = unsealJSON(name, sealed, &r)
	return r, err
}

// RecordIn decodes a value of [Records]. It returns an empty name if the value is not a record.
func RecordIn(key string, value []byte) (name string, r Record, err error) {
	at, ok := slotOf(key)
	if !ok || at.bucket != string(autoscalersBucket) || value == nil {
		return "", Record{}, nil
	}
	r, err = unsealRecord(at.key, value)
	return at.key, r, err
}

// A history entry is one line of JSON. If the inputs of its decision were recorded, they are a
// second line, and both lines are compressed. Reading the history does not decode the second
// line.

// recordedInputs contains the inputs of a decision and the version of the rules that made the
// decision.
type recordedInputs struct {
	Engine int `json:"engine"`
	policy.Inputs
}

var (
	entryEncoder = must(zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithWindowSize(256<<10), zstd.WithEncoderCRC(false)))
	entryDecoder = must(zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderMaxMemory(64<<20)))
)

// The first call creates the encoder's channels. Channels that are created in a synctest bubble
// cannot be used outside it.
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

// entryLines returns the JSON of an entry and the JSON of its inputs, which can be empty.
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
