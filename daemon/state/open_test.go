package state

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	bolt "go.etcd.io/bbolt"
)

func filled(t *testing.T, dir string) {
	t.Helper()
	if template == nil {
		from := t.TempDir()
		s := open(t, from)
		for i := range 50 {
			commit(t, s, Changes{
				Records:   map[string]Record{fmt.Sprint("a", i): sampleRecord(i)},
				Entries:   []Entry{sampleEntry("a", i)},
				LastRound: epoch,
			})
			if err := s.Fleet("f").Save(t.Context(), fmt.Sprint(i), bytes.Repeat([]byte{'v'}, 200)); err != nil {
				t.Fatal(err)
			}
		}
		closeStore(t, s)
		template = fstest.MapFS{}
		for _, name := range []string{"state.db", "history.db"} {
			text, err := os.ReadFile(filepath.Join(from, name))
			if err != nil {
				t.Fatal(err)
			}
			template[name] = &fstest.MapFile{Data: text, Mode: 0o600}
		}
	}
	if err := os.CopyFS(dir, template); err != nil {
		t.Fatal(err)
	}
}

var template fstest.MapFS

func overwrite(change func([]byte) []byte) func(*testing.T, string) {
	return func(t *testing.T, path string) {
		t.Helper()
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, change(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func edit(change func(*bolt.Tx) error) func(*testing.T, string) {
	return func(t *testing.T, path string) {
		t.Helper()
		db, err := bolt.Open(path, 0o600, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(db.Update(change), db.Close()); err != nil {
			t.Fatal(err)
		}
	}
}

const pageSize = 4096

func zeroPages(text []byte) []byte {
	clear(text[2*pageSize:])
	return text
}

func TestDamagedFileIsSetAside(t *testing.T) {
	bucketOf := map[string][]byte{"state.db": autoscalersBucket, "history.db": entriesBucket}
	for name, bucket := range bucketOf {
		tests := []struct {
			name   string
			damage func(*testing.T, string)
		}{
			{"empty", overwrite(func([]byte) []byte { return nil })},
			{"meta pages only", overwrite(func(text []byte) []byte { return text[:2*pageSize] })},
			{"truncated", overwrite(func(text []byte) []byte { return text[:4*pageSize] })},
			{"zeroed pages", overwrite(zeroPages)},
			{"both meta pages", overwrite(func(text []byte) []byte { text[40]++; text[pageSize+40]++; return text })},
			{"all page headers", overwrite(func(text []byte) []byte {
				for at := 2 * pageSize; at < len(text); at += pageSize {
					text[at+8] ^= 0x40
				}
				return text
			})},
			{"one changed bit in the values", overwrite(func(text []byte) []byte {
				text = bytes.ReplaceAll(text, []byte("checkout-"), []byte("chdckout-"))
				return bytes.ReplaceAll(text, []byte("SuccessfulRescale"), []byte("SuccessfulRescald"))
			})},
			{"another database", edit(func(tx *bolt.Tx) error { return tx.DeleteBucket(metaBucket) })},
			{"an invalid format", edit(func(tx *bolt.Tx) error { return tx.Bucket(metaBucket).Put(formatKey, []byte("0")) })},
			{"a value without a seal", edit(func(tx *bolt.Tx) error { return tx.Bucket(bucket).Put([]byte("12345678x"), []byte("{}")) })},
			{"an invalid metadata value", edit(func(tx *bolt.Tx) error { return tx.Bucket(metaBucket).Put(lastRoundKey, []byte("\x01abcdefgh")) })},
		}
		for _, test := range tests {
			t.Run(name+"/"+test.name, func(t *testing.T) {
				dir := t.TempDir()
				filled(t, dir)
				path := filepath.Join(dir, name)
				test.damage(t, path)
				damaged, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				part := historyPart
				if name == "state.db" { // the next start creates an empty file
					wantSetAside(t, dir, path, damaged)
					part = MemoryPart
				}
				s := open(t, dir)
				defer closeStore(t, s)
				wantLosses(t, s, part)
				if aside := asideNames(path); len(aside) != 1 || !strings.Contains(s.Losses()[0].Message, aside[0]) {
					t.Errorf("the file was renamed to %q, but the loss says %q", aside, s.Losses()[0].Message)
				} else if found, err := os.ReadFile(aside[0]); err != nil || !bytes.Equal(found, damaged) {
					t.Errorf("the content of the renamed file changed (%v)", err)
				}
				entries, err := s.History(t.Context(), "a", time.Time{}, time.Time{}, 0)
				if err != nil {
					t.Fatal(err)
				}
				records := load(t, s).Autoscalers
				if name == "state.db" && (len(records) != 0 || len(entries) != 50) {
					t.Errorf("%d records and %d entries, want 0 and 50", len(records), len(entries))
				}
				if name == "history.db" && (len(records) != 50 || len(entries) != 0) {
					t.Errorf("%d records and %d entries, want 50 and 0", len(records), len(entries))
				}
			})
		}
	}
}

func wantSetAside(t *testing.T, dir, path string, content []byte) {
	t.Helper()
	_, err := Open(dir, Options{})
	var damage *damagedError
	if !errors.As(err, &damage) {
		t.Fatalf("Open = %v", err)
	}
	if damage.Path != path || !strings.HasPrefix(damage.Aside, path+".damaged-") {
		t.Fatalf("%q was renamed to %q", damage.Path, damage.Aside)
	}
	for _, word := range []string{path, damage.Aside, "start again"} {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("error %q does not mention %q", err, word)
		}
	}
	if found, err := os.ReadFile(damage.Aside); err != nil || !bytes.Equal(found, content) {
		t.Errorf("the content of the renamed file changed (%v)", err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the damaged file still exists (%v)", err)
	}
}

func TestUnusableValue(t *testing.T) {
	put := func(t *testing.T, dir string, bucket []byte, key string) string {
		t.Helper()
		closeStore(t, open(t, dir))
		path := filepath.Join(dir, "state.db")
		edit(func(tx *bolt.Tx) error {
			sealed, err := sealJSON(key, 3)
			return errors.Join(err, tx.Bucket(bucket).Put([]byte(key), sealed))
		})(t, path)
		return path
	}
	for _, key := range []string{string(lastRoundKey), string(clockKey), string(lossesKey), "pause/f/shop", "removals/shop"} {
		dir := t.TempDir()
		path := put(t, dir, metaBucket, key)
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		wantSetAside(t, dir, path, content)
	}
	dir := t.TempDir()
	path := put(t, dir, autoscalersBucket, "web")
	s := open(t, dir)
	defer closeStore(t, s)
	_, err := s.Load(t.Context())
	var damage *damagedError
	if !errors.As(err, &damage) || damage.Path != path || !strings.Contains(err.Error(), `autoscaler "web"`) || !strings.Contains(err.Error(), "move it away") {
		t.Errorf("Open with an empty record = %v", err)
	}
}

func TestRandomDamage(t *testing.T) {
	source := t.TempDir()
	filled(t, source)
	sound, err := os.ReadFile(filepath.Join(source, "state.db"))
	if err != nil {
		t.Fatal(err)
	}
	s := open(t, source)
	want := load(t, s)
	closeStore(t, s)
	aside := 0
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 1))
		dir := t.TempDir()
		text := bytes.Clone(sound)
		for range 1 + random.IntN(20) {
			text[random.IntN(len(text))] ^= byte(1 + random.IntN(255))
		}
		path := filepath.Join(dir, "state.db")
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := Open(dir, Options{})
		var damage *damagedError
		switch {
		case errors.As(err, new(*formatError)): // the format has no checksum, so that every version can read it
		case err == nil:
			if diff := cmp.Diff(want, load(t, s)); diff != "" {
				t.Errorf("seed %d: state (-want +got):\n%s", seed, diff)
			}
			closeStore(t, s)
		case errors.As(err, &damage) && damage.Aside != "":
			aside++
		default:
			t.Errorf("seed %d: %v", seed, err)
		}
	}
	if aside == 0 {
		t.Error("no damage was detected")
	}
}

func TestNewerFormat(t *testing.T) {
	newer := make([]byte, sealSize)
	newer[0] = formatVersion + 1
	binary.BigEndian.PutUint32(newer[1:], checksum(newer[0], "a", nil))
	for name, change := range map[string]func(*bolt.Tx) error{
		"file format": func(tx *bolt.Tx) error {
			return tx.Bucket(metaBucket).Put(formatKey, []byte(strconv.Itoa(formatVersion+1)))
		},
		"value format": func(tx *bolt.Tx) error { return tx.Bucket(autoscalersBucket).Put([]byte("a"), newer) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			filled(t, dir)
			path := filepath.Join(dir, "state.db")
			edit(change)(t, path)
			_, err := Open(dir, Options{})
			var format *formatError
			if !errors.As(err, &format) || format.Version != formatVersion+1 || format.Path != path {
				t.Fatalf("Open = %v", err)
			}
			if _, err := os.Stat(path); err != nil {
				t.Errorf("the file was moved: %v", err)
			}
		})
	}
}

func TestSystemErrorIsNoDamage(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "state.db")
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	_, err := Open(dir, Options{})
	var damage *damagedError
	if err == nil || errors.As(err, &damage) || !strings.Contains(err.Error(), path) {
		t.Errorf("Open with a directory instead of the file = %v", err)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(file, Options{}); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("Open with a file instead of the directory = %v", err)
	}
}

func TestPanicInACommit(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir).(*store)
	commit(t, s, Changes{Records: map[string]Record{"a": sampleRecord(1)}})
	err := s.state.update(func(*bolt.Tx) error { panic("page 7: broken") })
	if err == nil || !strings.Contains(err.Error(), "page 7: broken") {
		t.Errorf("Commit = %v", err)
	}
	err = s.Commit(context.Background(), Changes{LastRound: epoch})
	if err == nil || !strings.Contains(err.Error(), "restart hpad") {
		t.Errorf("later Commit = %v", err)
	}
	closeStore(t, s)
	again := open(t, dir)
	defer closeStore(t, again)
	if len(load(t, again).Autoscalers) != 1 {
		t.Error("the record is lost")
	}
}

// TestFaultWhileReading checks that Load returns an error if the file of an open store was
// truncated.
func TestFaultWhileReading(t *testing.T) {
	dir := t.TempDir()
	filled(t, dir)
	s := open(t, dir)
	if err := os.Truncate(filepath.Join(dir, "state.db"), 3*pageSize); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Load(t.Context()); err == nil || !strings.Contains(err.Error(), "panic: ") {
		t.Errorf("Load = %v", err)
	}
	s.Close() //nolint:errcheck // the file is broken
}
