package api

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// Only the owner and the group of the socket can connect to it.
const (
	socketMode    = 0o660
	socketDirMode = 0o750
)

// maxSocketPath is the size of sun_path (see unix(7)) without the terminating zero.
const maxSocketPath = 107

// socketProbeTimeout is the time limit for the check whether a process listens on an existing
// socket.
const socketProbeTimeout = 2 * time.Second

// ListenSocket listens on a unix socket with mode 0660, and creates its directory with mode 0750 if
// it does not exist. It replaces a socket on which no process listens, such as the socket of a
// killed hpad. Any other existing file is an error. Close removes the socket.
//
// group is the name or number of the group that the socket and a created directory belong to. If
// it is empty, they belong to the group of the process.
func ListenSocket(path, group string) (*Socket, error) {
	s, err := listenSocket(path, group)
	if err != nil {
		return nil, fmt.Errorf("listen on socket %q: %w", path, err)
	}
	return s, nil
}

func listenSocket(path, group string) (*Socket, error) {
	if len(path) > maxSocketPath {
		return nil, fmt.Errorf("the path has %d bytes, but a socket path can have at most %d", len(path), maxSocketPath)
	}
	gid, err := groupID(group)
	if err != nil {
		return nil, err
	}
	if err := makeSocketDir(filepath.Dir(path), gid); err != nil {
		return nil, err
	}
	if err := removeStaleSocket(path); err != nil {
		return nil, err
	}
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, err
	}
	listener.SetUnlinkOnClose(false)
	// Set the group first, because only the owner can connect until the mode is set.
	if err := giveTo(path, gid); err != nil {
		return nil, errors.Join(err, os.Remove(path), listener.Close())
	}
	if err := os.Chmod(path, socketMode); err != nil {
		return nil, errors.Join(err, os.Remove(path), listener.Close())
	}
	info, err := os.Lstat(path)
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	return &Socket{listener, path, info}, nil
}

// ownGroup makes chown leave the group unchanged.
const ownGroup = -1

// groupID returns the ID of a group that is given by name or number, or ownGroup if group is
// empty.
func groupID(group string) (int, error) {
	if group == "" {
		return ownGroup, nil
	}
	if id, err := strconv.ParseUint(group, 10, 31); err == nil {
		return int(id), nil
	}
	found, err := user.LookupGroup(group)
	if err != nil {
		return 0, fmt.Errorf("group %q does not exist: create it (groupadd --system %s), or configure another group", group, group)
	}
	return strconv.Atoi(found.Gid)
}

func giveTo(path string, gid int) error {
	if gid == ownGroup {
		return nil
	}
	if err := os.Chown(path, -1, gid); err != nil {
		if errors.Is(err, fs.ErrPermission) {
			return fmt.Errorf("%w: only root can assign a file to a group that the user does not belong to", err)
		}
		return err
	}
	return nil
}

// makeSocketDir creates the directory of a socket. It does not change an existing directory,
// which must be accessible to the group.
func makeSocketDir(dir string, gid int) error {
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		if err := os.MkdirAll(dir, socketDirMode); err != nil {
			return fmt.Errorf("create its directory: %w", err)
		}
		return giveTo(dir, gid)
	}
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("create its directory: %q is not a directory", dir)
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && gid != ownGroup {
		const forGroup, forAll = 0o010, 0o001
		if mode := info.Mode().Perm(); mode&forAll == 0 && (int(stat.Gid) != gid || mode&forGroup == 0) {
			return fmt.Errorf("the group cannot access its directory: chgrp %d %s && chmod g+x %s", gid, dir, dir)
		}
	}
	return nil
}

// removeStaleSocket removes a socket at path if no process listens on it.
func removeStaleSocket(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() != fs.ModeSocket:
		return fmt.Errorf("it is %s, not a socket; move it, or configure another path", kindOf(info.Mode()))
	}
	conn, err := net.DialTimeout("unix", path, socketProbeTimeout)
	switch {
	case err == nil:
		defer func() { _ = conn.Close() }()
		return fmt.Errorf("another hpad%s listens on it; stop it, or configure another socket", peerName(conn))
	case errors.Is(err, syscall.ECONNREFUSED):
		return os.Remove(path)
	case errors.Is(err, fs.ErrNotExist):
		return nil
	default:
		return fmt.Errorf("check whether another hpad listens on it: %w", err)
	}
}

func kindOf(mode fs.FileMode) string {
	switch {
	case mode.IsRegular():
		return "a file"
	case mode.IsDir():
		return "a directory"
	case mode&fs.ModeSymlink != 0:
		return "a symbolic link"
	}
	return "a special file"
}

// Socket is a listener on a unix socket.
type Socket struct {
	*net.UnixListener
	path string
	info fs.FileInfo
}

// Close stops listening and removes the socket, unless another process has replaced it.
func (s *Socket) Close() error {
	var removed error
	if info, err := os.Lstat(s.path); err == nil && os.SameFile(info, s.info) {
		if err := os.Remove(s.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			removed = err
		}
	}
	return errors.Join(removed, s.UnixListener.Close())
}
