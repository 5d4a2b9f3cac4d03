package state

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"io"
	"sync"

	"github.com/klauspost/compress/flate"
)

// An entry of the history is the length of its JSON as a varint, the JSON, and the inputs
// of the decision, compressed together. One without inputs is plain JSON, as all were in
// earlier versions.

// sealEntry seals an entry.
func sealEntry(key string, e *Entry) ([]byte, error) {
	if len(e.Inputs) == 0 {
		return sealJSON(key, e)
	}
	text, err := json.Marshal(e)
	if err != nil {
		return nil, err
	}
	whole := binary.AppendUvarint(make([]byte, 0, binary.MaxVarintLen32+len(text)+len(e.Inputs)), uint64(len(text)))
	whole = append(append(whole, text...), e.Inputs...)
	var sealed bytes.Buffer
	sealed.Write(make([]byte, sealSize))
	if err := flate.StatelessDeflate(&sealed, whole, true, nil); err != nil {
		return nil, err
	}
	return sealInPlace(entryFormat, key, sealed.Bytes()), nil
}

// unsealEntry reads an entry.
func unsealEntry(key string, sealed []byte, e *Entry) error {
	payload, err := unseal(key, sealed)
	if err != nil {
		return err
	}
	text, inputs, err := new(inflater).entry(sealed[0], payload)
	if err != nil {
		return err
	}
	e.Inputs = bytes.Clone(inputs)
	return json.Unmarshal(text, e)
}

// inflater reads compressed values, one after the other.
type inflater struct {
	compressed bytes.Reader
	whole      bytes.Buffer
}

var flateReaders = sync.Pool{New: func() any { return flate.NewReader(nil) }}

// entry returns the JSON and the inputs of an entry, until the next one.
func (f *inflater) entry(format byte, payload []byte) (text, inputs []byte, err error) {
	if format < entryFormat {
		return payload, nil, nil
	}
	f.compressed.Reset(payload)
	f.whole.Reset()
	reader := flateReaders.Get().(io.Reader)
	defer flateReaders.Put(reader)
	if err := reader.(flate.Resetter).Reset(&f.compressed, nil); err != nil {
		return nil, nil, err
	}
	if _, err := f.whole.ReadFrom(reader); err != nil {
		return nil, nil, err
	}
	whole := f.whole.Bytes()
	length, size := binary.Uvarint(whole)
	if size <= 0 || length > uint64(len(whole)-size) {
		return nil, nil, errTruncated
	}
	return whole[size:][:length], whole[size:][length:], nil
}
