package state

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"
	"unicode/utf8"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

// An export is in JSON Lines format: a header, one line per value, and an end line that proves that
// the export is complete. Values are checked during the export and get new checksums during the
// import.

type exportHeader struct {
	// Export is the version of the export format. Format is the version of the values.
	Export int       `json:"hpad_state"`
	Format int       `json:"format"`
	Time   time.Time `json:"time"`
}

const exportVersion = 1

type exportLine struct {
	// File is the name of the database. Bucket is the path of nested buckets in it.
	File   string   `json:"file,omitempty"`
	Bucket []string `json:"bucket,omitempty"`
	// Key is text. KeyBytes is set instead if the key is not valid UTF-8.
	Key      string `json:"key,omitempty"`
	KeyBytes []byte `json:"key_bytes,omitempty"`
	// Value is set for JSON values. All other values are in Packed, in the given Format.
	Value  json.RawMessage `json:"value,omitempty"`
	Format byte            `json:"format,omitempty"`
	Packed []byte          `json:"packed,omitempty"`
	// End is the number of values, in the last line only.
	End *int `json:"end,omitempty"`
}

func (l *exportLine) key() []byte {
	if l.KeyBytes != nil {
		return l.KeyBytes
	}
	return []byte(l.Key)
}

// sealKey returns the key that is part of a value's checksum.
func sealKey(bucket []string, key []byte) string {
	if len(bucket) > 1 {
		return nestedKey(bucket[len(bucket)-1], string(key))
	}
	return string(key)
}

type exporter struct {
	ctx     context.Context
	to      *bufio.Writer
	written int
	// bytes is the total size of the exported histories.
	bytes int64
}

// Export implements [Store].
func (s *store) Export(ctx context.Context, to io.Writer, withHistory bool) error {
	var histories []Store
	if withHistory {
		histories = []Store{s}
	}
	file, err := Spool(ctx, s, nil, histories)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	_, err = io.Copy(to, file)
	return err
}

// Spool writes an export to an unlinked file. The export contains the state of a cluster member,
// the state of fleets, which has priority, and the histories of several stores. The stores must
// come from [Open] or [OpenShared]. Because of the file, a slow reader does not keep a
// transaction open, which could block writers. The caller closes the file.
func Spool(ctx context.Context, own Store, fleets []map[string][]byte, histories []Store) (*os.File, error) {
	s := own.(*store)
	path := filepath.Join(s.dir, "export-"+rand.Text())
	file, err := createFile(path, os.O_RDWR, 0o600)
	if err != nil {
		return nil, unwritten(s.dir, err)
	}
	var databases []*database
	for _, h := range histories {
		databases = append(databases, h.(*store).history)
	}
	err = errors.Join(os.Remove(path), export(ctx, file, s.state, fleets, databases))
	if err == nil {
		_, err = file.Seek(0, io.SeekStart)
	}
	if err != nil {
		return nil, errors.Join(unwritten(s.dir, err), file.Close())
	}
	return file, nil
}

func export(ctx context.Context, to io.Writer, own *database, fleets []map[string][]byte, histories []*database) error {
	e := &exporter{ctx: ctx, to: bufio.NewWriterSize(to, 64<<10)}
	if err := e.line(exportHeader{Export: exportVersion, Format: formatVersion, Time: time.Now().UTC()}); err != nil {
		return err
	}
	err := own.view(func(tx *bolt.Tx) error {
		if len(fleets) == 0 {
			return e.database(stateName, tx)
		}
		return e.merged(tx, fleets)
	})
	if err != nil {
		return fmt.Errorf("export %q: %w", own.path, err)
	}
	for _, d := range histories {
		if err := d.view(func(tx *bolt.Tx) error { return e.database(historyName, tx) }); err != nil {
			return fmt.Errorf("export %q: %w", d.path, err)
		}
	}
	if len(histories) > 0 {
		sealed, err := sealJSON(string(bytesKey), e.bytes)
		if err != nil {
			return err
		}
		if err := e.value(historyName, []string{string(metaBucket)}, bytesKey, sealed); err != nil {
			return err
		}
	}
	if err := e.line(exportLine{End: &e.written}); err != nil {
		return err
	}
	return e.to.Flush()
}

// merged writes the state in the database of tx, merged with the state of the given fleets.
func (e *exporter) merged(tx *bolt.Tx, fleets []map[string][]byte) error {
	own, err := valuesOf(tx)
	if err != nil {
		return err
	}
	whole, err := merge(append([]map[string][]byte{own}, fleets...))
	if err != nil {
		return err
	}
	for _, key := range slices.Sorted(maps.Keys(whole)) {
		at, _ := slotOf(key)
		path := []string{at.bucket}
		if at.fleet != "" {
			path = append(path, at.fleet)
		}
		if err := e.value(stateName, path, []byte(at.key), whole[key]); err != nil {
			return err
		}
	}
	return nil
}

// valuesOf returns the values in state.db by their keys in Records. The values are valid only
// during the transaction.
func valuesOf(tx *bolt.Tx) (map[string][]byte, error) {
	values := map[string][]byte{}
	err := eachValue(tx, func(path []string, key, value []byte) error {
		if !isFormat(path, key) {
			values[slotIn(path, key).String()] = value
		}
		return nil
	})
	return values, err
}

// slotIn returns the slot of a key in a bucket of state.db.
func slotIn(path []string, key []byte) slot {
	at := slot{bucket: path[0], key: string(key)}
	if len(path) > 1 {
		at.fleet = path[1]
	}
	return at
}

func (e *exporter) line(value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	_, err = e.to.Write(append(text, '\n'))
	return err
}

func (e *exporter) database(file string, tx *bolt.Tx) error {
	return eachValue(tx, func(path []string, key, value []byte) error {
		switch err := e.ctx.Err(); {
		case err != nil:
			return err
		case isFormat(path, key):
			return nil // the import writes its own format key
		case file == historyName && path[0] == string(metaBucket) && bytes.Equal(key, bytesKey):
			var size int64 // written last, as the sum over all histories
			err := unsealJSON(string(bytesKey), value, &size)
			e.bytes += size
			return err
		}
		return e.value(file, path, key, value)
	})
}

func (e *exporter) value(file string, path []string, key, value []byte) error {
	line := exportLine{File: file, Bucket: path}
	if utf8.Valid(key) {
		line.Key = string(key)
	} else {
		line.KeyBytes = key
	}
	payload, err := unseal(sealKey(path, key), value)
	if err != nil {
		return fmt.Errorf("bucket %q: %q: %w", path, key, err)
	}
	if value[0] == plainFormat && json.Valid(payload) && bytes.HasSuffix(payload, []byte("\n")) {
		line.Value = payload
	} else {
		line.Format, line.Packed = value[0], append([]byte{}, payload...)
	}
	e.written++
	return e.line(&line)
}

// ExportDir exports a directory that no daemon uses, together with the state of fleets and the
// histories in the directories more.
func ExportDir(ctx context.Context, dir string, to io.Writer, withHistory bool, fleets []map[string][]byte, more ...string) error {
	paths := []string{filepath.Join(dir, stateName)}
	if withHistory {
		for _, dir := range append([]string{dir}, more...) {
			paths = append(paths, filepath.Join(dir, historyName))
		}
	}
	var databases []*database
	for _, path := range paths {
		d, err := openReadOnly(path)
		if err != nil {
			return err
		}
		defer func() { _ = d.close() }()
		databases = append(databases, d)
	}
	return export(ctx, to, databases[0], fleets, databases[1:])
}

func openReadOnly(path string) (*database, error) {
	h, err := openHandle(path, true)
	switch {
	case errors.Is(err, bolterrors.ErrTimeout):
		return nil, &heldError{Dir: filepath.Dir(path)}
	case err != nil:
		return nil, fmt.Errorf("open %q: %w", path, err)
	}
	return &database{path: path, handle: h}, nil
}

const importBatch = 10_000

// Import creates the state in an empty directory from an export and returns the number of values.
// It leaves no files behind after an error, unless an import is incomplete: it was killed, or share
// failed after keep. [Open] then fails until an import is complete. If share is not nil, Import calls it with the values of
// state.db by their keys in Records. share must call keep with the values for the directory before
// it writes the other values elsewhere. When keep returns nil, the export has been verified and
// written, and only the files have to be renamed.
func Import(ctx context.Context, dir string, from io.Reader, share func(values map[string][]byte, keep func(own map[string][]byte) error) error) (values int, err error) {
	if err := makeDir(dir); err != nil {
		return 0, fmt.Errorf("create state directory %q: %w", dir, err)
	}
	if err := checkNew(dir); err != nil {
		return 0, err
	}
	i := &importer{drafts: map[string]*draft{}}
	mark := filepath.Join(dir, stateName+importSuffix)
	incomplete := exists(mark)
	defer func() {
		for _, d := range i.drafts {
			err = errors.Join(err, d.discard(incomplete && d.db.path == mark))
		}
	}()
	for _, name := range []string{stateName, historyName} { // state.db first: its draft marks the import
		d := &draft{db: database{path: filepath.Join(dir, name+importSuffix), buckets: buckets[name]}, values: map[slot][]byte{}}
		i.drafts[name] = d
		if err := d.create(); err != nil {
			return 0, fmt.Errorf("create %q: %w", d.db.path, err)
		}
	}
	if share != nil {
		i.values = map[string][]byte{}
	}
	if err := i.read(ctx, from); err != nil {
		return 0, fmt.Errorf("line %d: %w", i.line, err)
	}
	if share == nil {
		err = i.complete(nil)
	} else {
		err = share(i.values, func(own map[string][]byte) error {
			err := i.complete(own)
			incomplete = incomplete || err == nil // share writes the other values now
			return err
		})
	}
	if err != nil {
		return 0, err
	}
	if err := finish(dir); err != nil {
		return 0, err
	}
	incomplete = false
	return i.count, nil
}

// importSuffix is the file name suffix of the databases of an incomplete import.
const importSuffix = ".import"

// checkImport returns an error if the import into a directory is incomplete.
func checkImport(dir string) error {
	mark := filepath.Join(dir, stateName+importSuffix)
	if exists(filepath.Join(dir, stateName)) || !exists(mark) {
		return nil
	}
	return fmt.Errorf("an import into %q is incomplete: repeat \"hpad state import\"; to start without it, remove %q", dir, mark)
}

// checkNew returns an error if a directory already contains a state. It accepts the history of an
// incomplete import.
func checkNew(dir string) error {
	incomplete := checkImport(dir) != nil
	for name := range buckets {
		if name == historyName && incomplete {
			continue
		}
		if path := filepath.Join(dir, name); exists(path) {
			return fmt.Errorf("%q exists: import needs an empty state_dir; move the existing state away first", path)
		}
	}
	return nil
}

type importer struct {
	line, count int
	// drafts maps the final file names to the incomplete databases.
	drafts map[string]*draft
	// values belong in the cluster store. It is nil if all values belong in the directory.
	values map[string][]byte
}

// draft is an incomplete database.
type draft struct {
	db database
	// values wait to be written.
	values map[slot][]byte
}

func (d *draft) create() error {
	err := createDraft(d.db.path, d.db.buckets, nil)
	if err == nil {
		d.db.handle, err = openHandle(d.db.path, false)
	}
	return err
}

func (d *draft) put(at slot, value []byte) error {
	if d.values[at] = value; len(d.values) < importBatch {
		return nil
	}
	return d.flush()
}

func (d *draft) flush() error {
	err := d.db.update(func(tx *bolt.Tx) error { return putValues(tx, d.values) })
	clear(d.values)
	return err
}

// discard closes the draft, and removes it unless keep is set.
func (d *draft) discard(keep bool) error {
	var err error
	if d.db.handle != nil {
		err = d.db.close()
	}
	if keep {
		return err
	}
	return errors.Join(err, remove(d.db.path))
}

func (i *importer) read(ctx context.Context, from io.Reader) error {
	lines := bufio.NewReaderSize(from, 1<<20)
	i.line = 1
	var header exportHeader
	text, err := lines.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(text, &header)
	}
	switch {
	case err != nil || header.Export == 0:
		return errors.New("not an export of hpad")
	case header.Export > exportVersion, header.Format > formatVersion:
		return fmt.Errorf("the export is from a newer hpad (version %d, format %d; supported are %d and %d): import it with that version",
			header.Export, header.Format, exportVersion, formatVersion)
	}
	for {
		i.line++
		text, err := lines.ReadBytes('\n')
		if err != nil {
			return fmt.Errorf("the export is incomplete: no end line after %d values", i.count)
		}
		var line exportLine
		if err := json.Unmarshal(text, &line); err != nil {
			return fmt.Errorf("invalid line: %w", err)
		}
		if line.End != nil {
			if *line.End != i.count {
				return fmt.Errorf("the export is incomplete: %d values expected, %d found", *line.End, i.count)
			}
			return nil
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := i.put(&line); err != nil {
			return err
		}
	}
}

func (i *importer) put(line *exportLine) error {
	if buckets[line.File] == nil || len(line.Bucket) == 0 || len(line.Bucket) > 2 || len(line.key()) == 0 {
		return fmt.Errorf("unknown file %q, bucket %q or key %q", line.File, line.Bucket, line.key())
	}
	payload, format := line.Packed, line.Format
	if line.Value != nil {
		payload, format = append(line.Value, '\n'), plainFormat
	}
	if format < plainFormat || format > formatVersion {
		return fmt.Errorf("the value of key %q has format %d; supported are %d to %d", line.key(), format, plainFormat, formatVersion)
	}
	sealed := sealInPlace(format, sealKey(line.Bucket, line.key()), append(make([]byte, sealSize), payload...))
	if err := checkValue(line.Bucket, line.key(), sealed); err != nil {
		return fmt.Errorf("%s: %w", valueName(line.Bucket, line.key()), err)
	}
	i.count++
	at := slotIn(line.Bucket, line.key())
	if i.values != nil && line.File == stateName {
		i.values[at.String()] = sealed
		return nil
	}
	return i.drafts[line.File].put(at, sealed)
}

func (i *importer) complete(own map[string][]byte) error {
	for key, value := range own {
		at, _ := slotOf(key)
		if err := i.drafts[stateName].put(at, value); err != nil {
			return err
		}
	}
	for _, d := range i.drafts {
		if err := d.flush(); err != nil {
			return fmt.Errorf("write %q: %w", d.db.path, err)
		}
		if err := d.db.verify(); err != nil {
			return fmt.Errorf("verify the export: %w", err)
		}
	}
	return nil
}

func finish(dir string) error {
	if err := checkNew(dir); err != nil {
		return err
	}
	for _, name := range []string{historyName, stateName} { // state.db last: without it a daemon starts with an empty state
		path := filepath.Join(dir, name)
		if err := os.Rename(path+importSuffix, path); err != nil {
			return err
		}
	}
	return syncDir(dir)
}
