package compose

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestDigestFile holds that of the files that labels name hpad opens none but YAML
// below the project's directory, whatever links and dots lead out of it.
func TestDigestFile(t *testing.T) {
	top := t.TempDir()
	dir := filepath.Join(top, "shop")
	write := func(name string) string {
		name = filepath.Join(top, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte("services: {}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	link := func(name, to string) string {
		name = filepath.Join(dir, name)
		if err := os.Symlink(to, name); err != nil {
			t.Fatal(err)
		}
		return name
	}
	own, beside := write("shop/compose.yaml"), write("base.yml")
	pipe := filepath.Join(dir, "pipe.yaml")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name, dir, file string
		compared        bool
	}{
		{"own", dir, own, true},
		{"in a directory of its own", dir, write("shop/deploy/prod.yml"), true},
		{"link inside", dir, link("same.yaml", "compose.yaml"), true},
		{"above", dir, beside, false},
		{"above, with dots", dir, dir + "/../base.yml", false},
		{"dots that stay inside", dir, dir + "/deploy/../compose.yaml", true},
		{"beside, with the same beginning", dir, write("shop-2/compose.yaml"), false},
		{"link out", dir, link("out.yaml", beside), false},
		{"link out, relative", dir, link("up.yaml", "../base.yml"), false},
		{"directory that is a link out", dir, filepath.Join(link("away", top), "base.yml"), false},
		{"no YAML", dir, write("shop/.env"), false},
		{"directory", dir, filepath.Dir(write("shop/dir.yaml/file")), false},
		{"pipe", dir, pipe, false},
		{"no directory", "", own, false},
		{"relative directory", ".", "compose.yaml", false},
		{"everything", "/", own, false},
		{"everything, with dots", "/tmp/..", own, false},
		{"no file", dir, "", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			digest, err := digestFile(test.dir, test.file)
			if (err == nil) != test.compared || (digest != "") != test.compared {
				t.Errorf("digestFile(%q, %q) = %q, %v, want it compared: %v", test.dir, test.file, digest, err, test.compared)
			}
			if errors.Is(err, fs.ErrNotExist) {
				t.Errorf("digestFile() = %v, which would be told as a file that is gone", err)
			}
		})
	}
	if _, err := digestFile(dir, filepath.Join(dir, "none.yaml")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of a file that is not there digestFile() = %v, want ErrNotExist", err)
	}
}
