package state

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
)

// The versions of the layout of both databases and of the values in them. A value gets
// another version if an older hpad could misread it. Versions 1 and 2 were written before
// the first release, and are not read.
const (
	// plainFormat is the version of the databases, and of values in JSON.
	plainFormat = 3
	// compressedFormat is the version of entries of the history with inputs.
	compressedFormat = 4
	// formatVersion is the newest version that this hpad reads.
	formatVersion = compressedFormat
)

// A sealed value is a format byte, a CRC-32C, and the payload. The checksum
// covers the format byte, the key that the value is found by, and the payload:
// bbolt itself has checksums for its meta pages alone. This much holds for all
// formats.
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

// sealInPlace fills in what stands before a payload.
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

// unseal returns the payload of a sealed value, which it is a part of.
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

// FormatError is the error of a file, or of a part of it, that another version of hpad
// wrote. The file is valid and stays in its place.
type FormatError struct {
	// Path is the file.
	Path string
	// Version is the format found.
	Version int
}

// Error names the file, the formats, and what to do.
func (e *FormatError) Error() string {
	if e.Version < plainFormat {
		return fmt.Sprintf("%q has format %d of a version before the first release, which this hpad does not read: remove it, or set another state_dir",
			e.Path, e.Version)
	}
	return fmt.Sprintf("%q has format %d and this hpad reads formats up to %d: run the newer hpad that wrote it, or give this one another state_dir",
		e.Path, e.Version, formatVersion)
}
