package state

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestFilesBelongToTheOwner checks that files created by root in another user's directory belong to
// that user, even after a failed import.
func TestFilesBelongToTheOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	var export bytes.Buffer
	from := open(t, t.TempDir())
	commit(t, from, Changes{Entries: []Entry{sampleEntry("a", 1)}})
	if err := from.Export(t.Context(), &export, true); err != nil {
		t.Fatal(err)
	}
	closeStore(t, from)
	const user, group = 12, 34
	for name, create := range map[string]func(dir string) error{
		"import": func(dir string) error {
			_, err := Import(t.Context(), dir, bytes.NewReader(export.Bytes()), nil)
			return err
		},
		"import into a new directory": func(dir string) error {
			_, err := Import(t.Context(), filepath.Join(dir, "state"), bytes.NewReader(export.Bytes()), nil)
			return err
		},
		"failed import": func(dir string) error {
			if _, err := Import(t.Context(), dir, strings.NewReader("{}\n"), nil); err == nil {
				t.Error("imported an invalid export")
			}
			return nil
		},
		"daemon": func(dir string) error {
			closeStore(t, open(t, dir))
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.Chown(dir, user, group); err != nil {
				t.Fatal(err)
			}
			if err := create(dir); err != nil {
				t.Fatal(err)
			}
			files := 0
			err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
				if err != nil {
					return err
				}
				info, err := entry.Info()
				if err != nil {
					return err
				}
				files++
				owner := info.Sys().(*syscall.Stat_t)
				if owner.Uid != user || owner.Gid != group || info.Mode()&0o027 != 0 && path != dir {
					t.Errorf("owner of %s = %d:%d, mode = %s", path, owner.Uid, owner.Gid, info.Mode())
				}
				return nil
			})
			if err != nil || files < 1 {
				t.Errorf("number of files = %d, %v", files, err)
			}
		})
	}
	// A link in the directory is not followed.
	dir, outside := t.TempDir(), filepath.Join(t.TempDir(), "outside")
	if err := os.WriteFile(outside, []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(dir, user, group); err != nil {
		t.Fatal(err)
	}
	if file, err := createFile(filepath.Join(dir, "x"), os.O_RDWR, 0o600); err != nil || file.Close() != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if _, err := createFile(filepath.Join(dir, "link"), os.O_RDWR, 0o600); err == nil {
		t.Error("created a file through a link")
	}
	if info, err := os.Stat(outside); err != nil || info.Sys().(*syscall.Stat_t).Uid == user {
		t.Error("changed the owner of a file through a link")
	}
}
