package files

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func replace(path, text string) error {
	_, err := Replace(path, 0o644, func(to io.Writer) error {
		_, err := io.WriteString(to, text)
		return err
	})
	return err
}

// check compares the content of a file and checks that no temporary file is left.
func check(t *testing.T, path, want string) os.FileInfo {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil || string(text) != want {
		t.Errorf("%s contains %q (%v), want %q", path, text, err, want)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), ".*")); len(left) > 0 {
		t.Errorf("temporary files are left: %v", left)
	}
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info
}

// tree creates files and links in a new directory. A name that contains "->" is a link.
func tree(t *testing.T, names ...string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for _, name := range names {
		name, target, isLink := strings.Cut(name, "->")
		path := filepath.Join(dir, name)
		err := os.MkdirAll(filepath.Dir(path), 0o755)
		if isLink {
			err = errors.Join(err, os.Symlink(strings.Replace(target, "DIR", dir, 1), path))
		} else {
			err = errors.Join(err, os.WriteFile(path, []byte("before"), 0o640))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestReplaceWritesThroughLinks(t *testing.T) {
	for name, test := range map[string]struct {
		files        []string
		path, target string
	}{
		"no link":              {nil, "web.map", "web.map"},
		"existing file":        {[]string{"web.map"}, "web.map", "web.map"},
		"relative link":        {[]string{"etc/web.map", "run/link->../etc/web.map"}, "run/link", "etc/web.map"},
		"absolute link":        {[]string{"etc/web.map", "link->DIR/etc/web.map"}, "link", "etc/web.map"},
		"chain":                {[]string{"etc/web.map", "a->b", "b->etc/web.map"}, "a", "etc/web.map"},
		"dangling link":        {[]string{"etc/other", "link->etc/web.map"}, "link", "etc/web.map"},
		"linked directory":     {[]string{"etc/other", "dir->etc"}, "dir/web.map", "etc/web.map"},
		"link through a link":  {[]string{"etc/real/web.map", "etc/now->real", "link->etc/now/web.map"}, "link", "etc/real/web.map"},
		"parent of a real dir": {[]string{"a/b/web.map", "a/x", "link->a/b", "run/link->../link/../x"}, "run/link", "a/x"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := tree(t, test.files...)
			path, target := filepath.Join(dir, test.path), filepath.Join(dir, test.target)
			before, _ := os.Lstat(path)
			if err := replace(path, "after"); err != nil {
				t.Fatal(err)
			}
			check(t, target, "after")
			if after, err := os.Lstat(path); err != nil || before != nil && before.Mode() != after.Mode() {
				t.Errorf("the path has mode %v, %v, want %v", after.Mode(), err, before.Mode())
			}
			if resolved, err := Resolve(path); err != nil || resolved != target {
				t.Errorf("Resolve() = %q, %v, want %q", resolved, err, target)
			}
		})
	}
}

func TestReplaceKeepsOwnerAndMode(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("changes owners, which only root may")
	}
	dir := tree(t, "web.map", "link->web.map")
	path := filepath.Join(dir, "web.map")
	if err := errors.Join(os.Chown(path, 12, 34), os.Chmod(path, 0o604)); err != nil {
		t.Fatal(err)
	}
	if err := replace(filepath.Join(dir, "link"), "after"); err != nil {
		t.Fatal(err)
	}
	info := check(t, path, "after")
	if owner := ownerOf(info); owner.Uid != 12 || owner.Gid != 34 || info.Mode() != 0o604 {
		t.Errorf("owner %d:%d, mode %v, want 12:34 and 0604", owner.Uid, owner.Gid, info.Mode())
	}
}

// TestReplaceInPlace checks the replacement of a file whose owner cannot be kept.
func TestReplaceInPlace(t *testing.T) {
	dir := tree(t, "web.map")
	path := filepath.Join(dir, "web.map")
	before, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	draft, err := os.CreateTemp(dir, "draft")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = draft.Close() }()
	if _, err := draft.WriteString("new"); err != nil {
		t.Fatal(err)
	}
	if err := overwrite(path, draft); err != nil {
		t.Fatal(err)
	}
	if after := check(t, path, "new"); !os.SameFile(before, after) {
		t.Error("the file was replaced, want the same file")
	}
}

// TestReplaceHardLink checks that all names of a file have the new content.
func TestReplaceHardLink(t *testing.T) {
	dir := tree(t, "web.map")
	path, name := filepath.Join(dir, "web.map"), filepath.Join(dir, "hard")
	if err := os.Link(path, name); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"after", "x"} {
		if err := replace(name, text); err != nil {
			t.Fatal(err)
		}
		check(t, path, text)
		check(t, name, text)
	}
}

func TestReplaceFails(t *testing.T) {
	for name, test := range map[string]struct{ file, path, want string }{
		"device":            {"x", "/dev/null", "not a regular file"},
		"link to a device":  {"link->/dev/null", "link", "not a regular file"},
		"directory":         {"dir/x", "dir", "not a regular file"},
		"loop":              {"link->link", "link", "too many levels"},
		"missing directory": {"x", "missing/web.map", "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := tree(t, test.file)
			if !filepath.IsAbs(test.path) {
				test.path = filepath.Join(dir, test.path)
			}
			if err := replace(test.path, "after"); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("the error is %v, want %q", err, test.want)
			}
		})
	}
	t.Run("write", func(t *testing.T) {
		path := filepath.Join(tree(t, "web.map"), "web.map")
		if _, err := Replace(path, 0o644, func(io.Writer) error { return syscall.ENOSPC }); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("the error is %v, want %v", err, syscall.ENOSPC)
		}
		check(t, path, "before")
	})
	t.Run("link of another user", func(t *testing.T) {
		dir := tree(t, "web.map", "link->web.map")
		if err := os.Lchown(filepath.Join(dir, "link"), 12, 34); err != nil {
			t.Skip("changes owners, which only root may")
		}
		if err := replace(filepath.Join(dir, "link"), "after"); err == nil || !strings.Contains(err.Error(), "symbolic link of user 12") {
			t.Errorf("the error is %v, want the owner of the link", err)
		}
		check(t, filepath.Join(dir, "web.map"), "before")
	})
}
