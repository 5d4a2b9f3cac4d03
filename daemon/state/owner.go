package state

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// createFile creates a file. If root creates it, it gets the owner and group of its directory,
// because the daemon runs as that user.
func createFile(path string, flag int, mode os.FileMode) (*os.File, error) {
	// O_EXCL does not follow symbolic links: root must not change the owner of another file.
	file, err := os.OpenFile(path, flag|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return nil, err
	}
	if err := giveToOwner(file); err != nil {
		return nil, errors.Join(err, file.Close(), os.Remove(path))
	}
	return file, nil
}

// makeDir creates a state directory. If root creates it, it gets the owner and group of its
// parent.
func makeDir(dir string) error {
	err := os.MkdirAll(filepath.Dir(dir), 0o750)
	if err == nil {
		err = os.Mkdir(dir, 0o750)
	}
	if errors.Is(err, fs.ErrExist) {
		return os.MkdirAll(dir, 0o750) // an error if it is a file
	}
	if err != nil {
		return err
	}
	made, err := os.OpenFile(dir, syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	return errors.Join(giveToOwner(made), made.Close())
}

// giveToOwner gives a file that root created the owner and group of its directory, if the file
// system permits that.
func giveToOwner(file *os.File) error {
	if os.Geteuid() != 0 {
		return nil
	}
	dir, err := os.Stat(filepath.Dir(filepath.Clean(file.Name())))
	if err != nil {
		return err
	}
	owner, ok := dir.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	if err := file.Chown(int(owner.Uid), int(owner.Gid)); !errors.Is(err, fs.ErrPermission) {
		return err
	}
	return nil
}
