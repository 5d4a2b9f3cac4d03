package state

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	bolt "go.etcd.io/bbolt"

	"github.com/hpad/hpad/policy"
)

func everyValue(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, name := range []string{stateName, historyName} {
		d, err := openReadOnly(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		var walk func(path string, bucket *bolt.Bucket)
		walk = func(path string, bucket *bolt.Bucket) {
			_ = bucket.ForEach(func(key, value []byte) error {
				if value == nil {
					walk(path+"/"+string(key), bucket.Bucket(key))
				} else {
					all[path+"/"+string(key)] = string(value)
				}
				return nil
			})
		}
		if err := d.view(func(tx *bolt.Tx) error {
			return tx.ForEach(func(bucket []byte, b *bolt.Bucket) error { walk(name+"/"+string(bucket), b); return nil })
		}); err != nil {
			t.Fatal(err)
		}
		if err := d.close(); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

func exported(t *testing.T) (dir string, text []byte) {
	t.Helper()
	dir = t.TempDir()
	filled(t, dir)
	s := open(t, dir)
	entry := sampleEntry("with-inputs", 5)
	entry.Inputs = &policy.Inputs{Now: epoch}
	commit(t, s, Changes{
		Entries: []Entry{entry}, Removals: map[string]Removals{"prod": {Rounds: []Removal{{Time: epoch, Instances: 3}}}},
		Pauses: map[policy.Scope]*policy.Pause{{Fleet: "prod"}: {Scope: policy.Scope{Fleet: "prod"}, Direction: policy.Down, Since: epoch}},
	})
	if err := s.Fleet("prod").Save(t.Context(), "binary", []byte("\x00\xff\n")); err != nil {
		t.Fatal(err)
	}
	var beside bytes.Buffer
	if err := s.Export(t.Context(), &beside, true); err != nil { // while the store is open
		t.Fatal(err)
	}
	closeStore(t, s)
	var alone bytes.Buffer
	if err := ExportDir(t.Context(), dir, &alone, true, nil); err != nil {
		t.Fatal(err)
	}
	_, one, _ := bytes.Cut(beside.Bytes(), []byte("\n"))
	if _, other, _ := bytes.Cut(alone.Bytes(), []byte("\n")); !bytes.Equal(one, other) {
		t.Error("the export of a daemon differs from the export of its directory")
	}
	return dir, alone.Bytes()
}

func TestExport(t *testing.T) {
	from, text := exported(t)
	to := filepath.Join(t.TempDir(), "new", "state")
	values, err := Import(t.Context(), to, bytes.NewReader(text), nil)
	if err != nil || values != bytes.Count(text, []byte("\n"))-2 {
		t.Fatalf("%d values in %d lines, %v", values, bytes.Count(text, []byte("\n")), err)
	}
	if diff := cmp.Diff(everyValue(t, from), everyValue(t, to)); diff != "" {
		t.Errorf("imported (-want +got):\n%s", diff)
	}
	a, b := open(t, from), open(t, to)
	if diff := cmp.Diff(load(t, a), load(t, b)); diff != "" {
		t.Errorf("loaded (-want +got):\n%s", diff)
	}
	closeStore(t, a)
	closeStore(t, b)

	var short bytes.Buffer
	if err := ExportDir(t.Context(), from, &short, false, nil); err != nil {
		t.Fatal(err)
	}
	without := t.TempDir()
	if _, err := Import(t.Context(), without, &short, nil); err != nil {
		t.Fatal(err)
	}
	s := open(t, without)
	if entries, err := s.History(t.Context(), "", time.Time{}, time.Time{}, 0); err != nil || len(entries) > 0 {
		t.Errorf("history entries without an exported history = %d, %v", len(entries), err)
	}
	if got, want := len(load(t, s).Autoscalers), 0; got == want {
		t.Error("no autoscalers found")
	}
	closeStore(t, s)
}

func TestExportBlocksNoCommit(t *testing.T) {
	st := open(t, t.TempDir())
	records := map[string]Record{}
	for i := range 500 {
		records[fmt.Sprintf("a-%d", i)] = sampleRecord(i)
	}
	commit(t, st, Changes{Records: records, LastRound: epoch})
	reader, writer := io.Pipe()
	exported := make(chan error, 1)
	go func() { exported <- st.Export(t.Context(), writer, true) }()
	if _, err := reader.Read(make([]byte, 4096)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	committed := make(chan error, 1)
	go func() {
		var err error
		for round := range 20 {
			err = errors.Join(err, st.Commit(ctx, Changes{Records: records, LastRound: epoch.Add(time.Duration(round) * 15 * time.Second)}))
		}
		committed <- err
	}()
	select {
	case err := <-committed:
		if err != nil {
			t.Error(err)
		}
	case <-ctx.Done():
		t.Error("commits waited for the reader of an export")
	}
	_ = reader.CloseWithError(io.ErrClosedPipe)
	if err := <-exported; !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("error of the export = %v, want the error of its reader", err)
	}
	if left, err := filepath.Glob(filepath.Join(st.(*store).dir, "*export*")); len(left) > 0 || err != nil {
		t.Errorf("files after an export = %v, %v", left, err)
	}
}

// TestImportIsInterrupted checks that a directory with an incomplete import cannot be opened, and
// that the import can be repeated.
func TestImportIsInterrupted(t *testing.T) {
	from, text := exported(t)
	failed := errors.New("killed")
	for name, interrupt := range map[string]func(dir string, from io.Reader) error{
		"while the other values are written": func(dir string, from io.Reader) error {
			_, err := Import(t.Context(), dir, from, func(values map[string][]byte, keep func(map[string][]byte) error) error {
				return errors.Join(keep(values), failed)
			})
			return err
		},
		"between the files": func(dir string, from io.Reader) error {
			if _, err := Import(t.Context(), dir, from, nil); err != nil {
				return err
			}
			path := filepath.Join(dir, stateName)
			return errors.Join(os.Rename(path, path+importSuffix), failed)
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := interrupt(dir, bytes.NewReader(text)); !errors.Is(err, failed) {
				t.Fatal(err)
			}
			if _, err := Import(t.Context(), dir, bytes.NewReader(text[:len(text)-30]), nil); err == nil {
				t.Error("no error for an incomplete export")
			}
			if _, err := Open(dir, Options{}); err == nil || !strings.Contains(err.Error(), `repeat "hpad state import"`) {
				t.Errorf("Open = %v, want an error with the remedy", err)
			}
			if _, err := Import(t.Context(), dir, bytes.NewReader(text), nil); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(everyValue(t, from), everyValue(t, dir)); diff != "" {
				t.Errorf("repeated import (-want +got):\n%s", diff)
			}
			if left, err := os.ReadDir(dir); err != nil || len(left) != 2 {
				t.Errorf("files after a repeated import = %v, %v", left, err)
			}
			closeStore(t, open(t, dir))
		})
	}
}

func TestImportRejects(t *testing.T) {
	_, text := exported(t)
	lines := bytes.SplitAfter(text, []byte("\n"))
	for name, c := range map[string]struct{ text, want string }{
		"empty":            {"", "line 1: not an export"},
		"no header":        {"{}\n", "line 1: not an export"},
		"cut after a line": {string(bytes.Join(lines[:len(lines)/2], nil)), "the export is incomplete"},
		"cut in a line":    {string(text[:len(text)-30]), "the export is incomplete"},
		"missing line":     {string(bytes.Join(append(append([][]byte{}, lines[:3]...), lines[4:]...), nil)), "the export is incomplete: "},
		"newer":            {strings.Replace(string(text), `{"hpad_state":1,"format":`, `{"hpad_state":1,"format":9`, 1), "from a newer hpad"},
		"garbage":          {string(lines[0]) + "garbage\n", "line 2: invalid line"},
		"unknown file":     {string(lines[0]) + `{"file":"../x","bucket":["meta"],"key":"k","value":1}` + "\n", "unknown file"},
		"invalid record":   {string(lines[0]) + `{"file":"state.db","bucket":["autoscalers"],"key":"web","format":7,"packed":"AA=="}` + "\n" + `{"end":1}` + "\n", "format 7"},
		"a clock":          {string(lines[0]) + `{"file":"state.db","bucket":["meta"],"key":"clock","value":"soon"}` + "\n" + `{"end":1}` + "\n", `line 2: bucket ["meta"]: "clock": `},
		"a pause":          {string(lines[0]) + `{"file":"state.db","bucket":["meta"],"key":"pause/a/web","value":{"until":3}}` + "\n" + `{"end":1}` + "\n", `"pause/a/web": `},
		"a memory":         {string(lines[0]) + `{"file":"state.db","bucket":["autoscalers"],"key":"web","value":{"memory":3}}` + "\n" + `{"end":1}` + "\n", `line 2: autoscaler "web": `},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			_, err := Import(t.Context(), dir, strings.NewReader(c.text), nil)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error = %v, want %s", err, c.want)
			}
			left, err := os.ReadDir(dir)
			if err != nil || len(left) != 0 {
				t.Errorf("files after a failed import = %v, %v", left, err)
			}
		})
	}
	dir := t.TempDir()
	filled(t, dir)
	before := everyValue(t, dir)
	if _, err := Import(t.Context(), dir, bytes.NewReader(text), nil); err == nil || !strings.Contains(err.Error(), "exists: import needs") {
		t.Errorf("error over an existing state = %v", err)
	}
	if diff := cmp.Diff(before, everyValue(t, dir)); diff != "" {
		t.Errorf("state (-want +got):\n%s", diff)
	}
	s := open(t, dir)
	var held *heldError
	if err := ExportDir(t.Context(), dir, &bytes.Buffer{}, true, nil); !errors.As(err, &held) {
		t.Errorf("export while a daemon is running: %v", err)
	}
	closeStore(t, s)
}
