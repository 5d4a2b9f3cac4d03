package confd_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/hpad/hpad/cmd/hpad/confd"
	"github.com/hpad/hpad/cmd/hpad/hint"
)

func write(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func names(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, entry := range entries {
		all = append(all, entry.Name())
	}
	return strings.Join(all, " ")
}

// create creates a file that contains "one" and returns its mode, owner and group.
func create(t *testing.T, path, like string) (mode os.FileMode, user, group int) {
	t.Helper()
	if err := confd.Create(path, like, []byte("one")); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	stat := info.Sys().(*syscall.Stat_t)
	return info.Mode(), int(stat.Uid), int(stat.Gid)
}

func giveAway(t *testing.T, path string) {
	t.Helper()
	if os.Geteuid() != 0 {
		return
	}
	if err := os.Chown(path, 12, 34); err != nil {
		t.Fatal(err)
	}
}

func TestCreate(t *testing.T) {
	dir := t.TempDir()
	main, path := filepath.Join(dir, "main"), filepath.Join(dir, "web.toml")
	write(t, main, "", 0o600)
	if mode, _, _ := create(t, path, main); read(t, path) != "one" || mode != 0o600 {
		t.Errorf("file contains %q, mode = %v, want the mode of the main file", read(t, path), mode)
	}
	err := confd.Create(path, main, []byte("two"))
	if !errors.Is(err, fs.ErrExist) || hint.Of(err) == "" {
		t.Errorf("Create of an existing file = %v, want ErrExist with a hint", err)
	}
	if read(t, path) != "one" || names(t, dir) != "main web.toml" {
		t.Errorf("after Create of an existing file: content %q, files %s", read(t, path), names(t, dir))
	}
	write(t, main, "", 0o640)
	giveAway(t, main)
	if mode, user, group := create(t, filepath.Join(dir, "x.toml"), main); mode != 0o640 || os.Geteuid() == 0 && (user != 12 || group != 34) {
		t.Errorf("mode = %v, owner = %d:%d, want the same as the main file", mode, user, group)
	}
}

func TestCreateFails(t *testing.T) {
	dir := t.TempDir()
	main := filepath.Join(dir, "hpad.toml")
	write(t, main, "", 0o644)
	err := confd.Create(filepath.Join(dir, "conf.d", "web.toml"), main, nil)
	if err == nil || !strings.Contains(err.Error(), "no such file or directory") || !strings.Contains(hint.Of(err), "mkdir -p") {
		t.Errorf("Create without the directory = %v, want a hint with mkdir", err)
	}
	if names(t, dir) != "hpad.toml" {
		t.Errorf("files after a failed Create = %s, want hpad.toml", names(t, dir))
	}
}

func TestRemove(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "web.toml")
	write(t, path, "", 0o644)
	if err := confd.Remove(path); err != nil || names(t, dir) != "" {
		t.Errorf("Remove = %v, remaining files %s", err, names(t, dir))
	}
	if err := confd.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Remove of a missing file = %v, want ErrNotExist", err)
	}
}
