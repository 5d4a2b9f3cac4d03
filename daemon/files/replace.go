// Package files replaces files whose paths users choose.
package files

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// maxLinks is the maximum number of symbolic links at the end of a path, as in Linux.
const maxLinks = 40

// Resolve follows symbolic links and returns the path of the file. Neither the file nor its directory
// needs to exist. Resolve returns an error if the file is not a regular file. It also returns an
// error if the last component of path is a link that belongs neither to root nor to the user of this
// process, because the owner of the link could redirect a write to any file.
func Resolve(path string) (string, error) {
	for range maxLinks {
		dir, name := filepath.Split(path)
		dir, err := resolveDir(cmp.Or(dir, "."))
		if err != nil {
			return "", err
		}
		path = filepath.Join(dir, name)
		info, err := os.Lstat(path)
		if errors.Is(err, fs.ErrNotExist) {
			return path, nil
		}
		switch {
		case err != nil:
			return "", err
		case info.Mode().IsRegular():
			return path, nil
		case info.Mode()&fs.ModeSymlink == 0:
			return "", fmt.Errorf("%q is not a regular file", path)
		}
		if owner := ownerOf(info); owner != nil && owner.Uid != 0 && int(owner.Uid) != os.Geteuid() {
			return "", fmt.Errorf("%q is a symbolic link of user %d: give it to root, or use the path of its target", path, owner.Uid)
		}
		next, err := os.Readlink(path)
		if err != nil {
			return "", err
		}
		if !filepath.IsAbs(next) {
			next = dir + "/" + next // not cleaned, because ".." applies to the target of a link
		}
		path = next
	}
	return "", fmt.Errorf("resolve %q: %w", path, syscall.ELOOP)
}

// resolveDir follows the links in the path of a directory, which need not exist.
func resolveDir(dir string) (string, error) {
	resolved, err := filepath.EvalSymlinks(dir)
	if parent := filepath.Dir(dir); errors.Is(err, fs.ErrNotExist) && parent != dir {
		if resolved, err = resolveDir(parent); err == nil {
			resolved = filepath.Join(resolved, filepath.Base(dir))
		}
	}
	return resolved, err
}

// IsBelow reports whether a resolved path is in a directory or one of its subdirectories.
func IsBelow(path, dir string) bool {
	if resolved, err := resolveDir(dir); err == nil {
		dir = resolved
	}
	below, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(below)
}

// Identity returns a key that is equal for all names of one file, such as links.
func Identity(path string) string {
	if info, err := os.Stat(path); err == nil {
		if file, ok := info.Sys().(*syscall.Stat_t); ok {
			return fmt.Sprintf("%d:%d", file.Dev, file.Ino)
		}
	}
	if resolved, err := Resolve(path); err == nil {
		return resolved
	}
	return path
}

// ownerOf returns the owner and group of a file, or nil if the system has none.
func ownerOf(info fs.FileInfo) *syscall.Stat_t {
	owner, _ := info.Sys().(*syscall.Stat_t)
	return owner
}

// Replace writes the file at the path that [Resolve] returns, completely or not at all. It returns the
// size in bytes. An existing file keeps its owner, group and permissions. A new file has the given
// permissions.
//
// If the process cannot set the owner, or the file has hard links, Replace overwrites the file in
// place after write has succeeded. A crash can then leave a part of the content.
func Replace(path string, perm fs.FileMode, write func(io.Writer) error) (size int64, err error) {
	path, err = Resolve(path)
	if err != nil {
		return 0, err
	}
	existing, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return 0, err
	default:
		perm = existing.Mode().Perm()
	}
	draft, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return 0, err
	}
	defer func() {
		_ = draft.Close()
		_ = os.Remove(draft.Name()) // absent after a rename
	}()
	if err := write(draft); err != nil {
		return 0, err
	}
	own, err := draft.Stat()
	if err != nil {
		return 0, err
	}
	if existing != nil && (linked(existing) || !chown(draft, own, existing)) {
		return own.Size(), overwrite(path, draft)
	}
	if err := errors.Join(draft.Chmod(perm), draft.Sync(), draft.Close()); err != nil {
		return 0, err
	}
	return own.Size(), os.Rename(draft.Name(), path)
}

// linked reports whether a file has several names, which a rename would separate.
func linked(existing fs.FileInfo) bool {
	owner := ownerOf(existing)
	return owner != nil && owner.Nlink > 1
}

// chown gives a new file the owner and group of an existing file, and reports whether it has them.
func chown(draft *os.File, own, existing fs.FileInfo) bool {
	have, want := ownerOf(own), ownerOf(existing)
	return have == nil || want == nil || have.Uid == want.Uid && have.Gid == want.Gid ||
		draft.Chown(int(want.Uid), int(want.Gid)) == nil
}

// overwrite replaces the content of an existing file by the content of draft.
func overwrite(path string, draft *os.File) error {
	if _, err := draft.Seek(0, io.SeekStart); err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, draft)
	return errors.Join(err, file.Sync(), file.Close())
}
