package confd

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/hpad/hpad/cmd/hpad/hint"
)

// Create makes a file that there is not yet, with mode, owner and group of the
// other *.toml files of its directory, or else of the file or directory like. Of a
// directory only the owner may write it, and where everybody may make files the
// other ones do not count. An error that is fs.ErrExist means that there is such a
// file, which is left as it is. Errors have hints.
func Create(path, like string, text []byte) error {
	staged, err := stage(path, sibling(path, like), text)
	if err != nil {
		return failed("write", path, err)
	}
	defer func() { _ = os.Remove(staged) }() // its name, which a file that is linked has twice
	if err := os.Link(staged, path); err != nil {
		return failed("write", path, err)
	}
	if err := syncDir(path); err != nil {
		_ = os.Remove(path)
		return failed("write", path, err)
	}
	return nil
}

// Remove removes a file. Errors have hints.
func Remove(path string) error {
	if err := os.Remove(path); err != nil {
		return failed("remove", path, err)
	}
	return failed("remove", path, syncDir(path))
}

// stage writes a text to a file beside path that no daemon reads, with the mode,
// owner and group of like, and returns its name. There is none after an error.
func stage(path, like string, text []byte) (name string, err error) {
	model, err := os.Stat(like)
	if err != nil {
		return "", err
	}
	file, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return "", err
	}
	defer func() {
		err = errors.Join(err, file.Close())
		if err != nil {
			_ = os.Remove(file.Name())
		}
	}()
	if _, err := file.Write(text); err != nil {
		return "", err
	}
	if err := own(file, model); err != nil {
		return "", err
	}
	mode := model.Mode().Perm()
	if model.IsDir() {
		mode &^= 0o133 // who may make files beside it may not change it
	}
	if err := file.Chmod(mode); err != nil { // after chown, which clears bits
		return "", err
	}
	return file.Name(), file.Sync()
}

// errOwner is that a file cannot be given to those who read its siblings.
var errOwner = errors.New("cannot be given the owner and group of the other files")

// own gives a file the owner and group of another one. The owner may be another
// one as long as everybody who could read that one can read the file.
func own(file *os.File, model fs.FileInfo) error {
	want, ok := model.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	err := file.Chown(int(want.Uid), int(want.Gid))
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	const group, others = 0o040, 0o004
	switch mode := model.Mode(); {
	case mode&others != 0:
		_ = file.Chown(-1, int(want.Gid)) // everybody may read it anyway
		return nil
	case mode&group != 0 && file.Chown(-1, int(want.Gid)) == nil:
		return nil
	}
	return errOwner
}

// sibling returns the file whose mode and owner a new one gets: the first *.toml
// beside it, or else like. Where everybody may make files, as in /tmp, those that
// are there say nothing: somebody else's would get the new one.
func sibling(path, like string) string {
	const othersWrite = 0o002
	info, err := os.Stat(filepath.Dir(path))
	if err != nil || info.Mode()&othersWrite != 0 {
		return like
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		return like // writing will fail, and say why
	}
	for _, entry := range entries {
		if strings.HasSuffix(entry.Name(), ".toml") && entry.Type().IsRegular() {
			return filepath.Join(filepath.Dir(path), entry.Name())
		}
	}
	return like
}

func syncDir(path string) error {
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// failed returns the error of an attempt, as "write", at a file that is as it was,
// with a hint where something is known to help; nil for nil.
func failed(attempt, path string, err error) error {
	if err == nil {
		return nil
	}
	text, cause := "", err
	if link, ok := errors.AsType[*os.LinkError](err); ok {
		cause = link.Err
	} else if at, ok := errors.AsType[*fs.PathError](err); ok {
		cause = at.Err
	}
	switch dir := filepath.Dir(path); {
	case errors.Is(err, fs.ErrExist):
		text = "it is left as it is: choose another name, or edit it"
	case errors.Is(err, errOwner), errors.Is(err, fs.ErrPermission):
		text = fmt.Sprintf("run the command as root or as the owner of %q", dir)
	case errors.Is(err, fs.ErrNotExist):
		text = fmt.Sprintf("is there a directory %q? mkdir -p %q makes it", dir, dir)
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		text = fmt.Sprintf("make room on the file system of %q; nothing was changed", dir)
	case errors.Is(err, syscall.EROFS):
		text = fmt.Sprintf("the file system of %q is mounted read-only: change the configuration where it comes from", dir)
	}
	return hint.With(fmt.Errorf("%s %q: %w", attempt, path, cause), text)
}
