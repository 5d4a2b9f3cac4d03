package confd

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/hpad/hpad/cmd/hpad/hint"
)

// Create creates a file with the mode, owner and group of the file at the path like. If like is a
// directory, only the owner can write the file. If the file exists, Create leaves it unchanged and
// returns fs.ErrExist. Errors have hints.
func Create(path, like string, text []byte) error {
	staged, err := stage(path, like, text)
	if err != nil {
		return failed("write", path, err)
	}
	defer func() { _ = os.Remove(staged) }() // the hard link at path remains
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

// stage writes text to a temporary file next to path, with the mode, owner and group of the file at
// like. It returns the path of the temporary file.
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
		mode &^= 0o133 // only the owner may write
	}
	if err := file.Chmod(mode); err != nil { // after chown, which clears mode bits
		return "", err
	}
	return file.Name(), file.Sync()
}

// errOwner means that some users who can read the other files would be unable to read the new file.
var errOwner = errors.New("set the owner and group of the other files: not permitted")

// own gives a file the owner and group of another file. The owner may differ if everyone who can
// read the other file can also read the new file.
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
		_ = file.Chown(-1, int(want.Gid)) // all users can read the file
		return nil
	case mode&group != 0 && file.Chown(-1, int(want.Gid)) == nil:
		return nil
	}
	return errOwner
}

func syncDir(path string) error {
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// failed wraps the error of an operation, for example "write", and adds a hint. It returns nil for
// nil.
func failed(operation, path string, err error) error {
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
		text = "the file is unchanged: use another name, or edit it"
	case errors.Is(err, errOwner), errors.Is(err, fs.ErrPermission):
		text = fmt.Sprintf("run the command as root or as the owner of %q", dir)
	case errors.Is(err, fs.ErrNotExist):
		text = fmt.Sprintf("create the directory with: mkdir -p %q", dir)
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		text = fmt.Sprintf("free space on the file system of %q; no file was changed", dir)
	case errors.Is(err, syscall.EROFS):
		text = fmt.Sprintf("the file system of %q is read-only: change the configuration at its origin", dir)
	}
	return hint.With(fmt.Errorf("%s %q: %w", operation, path, cause), text)
}
