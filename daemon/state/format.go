package state

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
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
		return nil, &FormatError{Version: int(version)}
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

// FormatError is the error of a valid file or value with an unsupported format.
type FormatError struct {
	Path    string
	Version int
}

func (e *FormatError) Error() string {
	return fmt.Sprintf("%q has format %d, and this hpad supports formats up to %d: run a newer hpad, or set another state_dir",
		e.Path, e.Version, formatVersion)
}

func sealRecord(name string, r Record) ([]byte, error) { return sealJSON(name, &r) }

func unsealRecord(name string, sealed []byte) (r Record, err error) {
	err = unsealJSON(name, sealed, &r)
	return r, err
}

// RecordIn decodes a value of [Records]. The name is empty if the value is not a record.
func RecordIn(key string, value []byte) (name string, r Record, err error) {
	at, ok := slotOf(key)
	if !ok || at.bucket != string(autoscalersBucket) || value == nil {
		return "", Record{}, nil
	}
	r, err = unsealRecord(at.key, value)
	return at.key, r, err
}
