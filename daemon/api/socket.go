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
	"sync"
	"syscall"
	"time"
)

// The modes of the socket and of the directory made for it: its group may talk
// to the daemon, others may not.
const (
	socketMode    = 0o660
	socketDirMode = 0o750
)

// maxSocketPath is the longest path the kernel takes for a socket, in bytes
// (sun_path of unix(7), less the closing zero).
const maxSocketPath = 107

// socketProbeTimeout bounds the question whether somebody listens on a socket.
const socketProbeTimeout = 2 * time.Second

// ListenSocket listens on a unix socket at path, with mode 0660, in a directory
// that is made with mode 0750 when it is not there. A socket that nobody listens
// on is what a killed hpad left behind and is replaced; any other, and anything else at
// path, is an error. Close removes the socket.
//
// The socket, and the directory if it has to be made, are given to a group by name or
// number. That is for a daemon that runs as root; empty leaves the process's own group.
func ListenSocket(path, group string) (*Socket, error) {
	s := &Socket{path: path, group: group}
	var err error
	if s.listener, s.info, err = listenSocket(path, group, removeStaleSocket); err != nil {
		return nil, fmt.Errorf("listen on socket %q: %w", path, err)
	}
	return s, nil
}

// listenSocket listens at a path, from which clear removes what may be there.
func listenSocket(path, group string, clear func(path string) error) (*net.UnixListener, fs.FileInfo, error) {
	if len(path) > maxSocketPath {
		return nil, nil, fmt.Errorf("the path has %d bytes, and a socket's may have %d at most", len(path), maxSocketPath)
	}
	gid, err := groupID(group)
	if err != nil {
		return nil, nil, err
	}
	if err := makeSocketDir(filepath.Dir(path), gid); err != nil {
		return nil, nil, err
	}
	if err := clear(path); err != nil {
		return nil, nil, err
	}
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, nil, err
	}
	listener.SetUnlinkOnClose(false)
	// The group first: until then nobody but the owner can connect.
	if err := giveTo(path, gid); err != nil {
		return nil, nil, errors.Join(err, os.Remove(path), listener.Close())
	}
	if err := os.Chmod(path, socketMode); err != nil {
		return nil, nil, errors.Join(err, os.Remove(path), listener.Close())
	}
	info, err := os.Lstat(path)
	if err != nil {
		return nil, nil, errors.Join(err, listener.Close())
	}
	return listener, info, nil
}

// ownGroup is the id that leaves a file's group as it is.
const ownGroup = -1

// groupID returns the id of a group by name or number; ownGroup for an empty one.
func groupID(group string) (int, error) {
	if group == "" {
		return ownGroup, nil
	}
	if id, err := strconv.ParseUint(group, 10, 31); err == nil {
		return int(id), nil
	}
	found, err := user.LookupGroup(group)
	if err != nil {
		return 0, fmt.Errorf("there is no group %q to give it to: make it (groupadd --system %s), or name another", group, group)
	}
	return strconv.Atoi(found.Gid)
}

func giveTo(path string, gid int) error {
	if gid == ownGroup {
		return nil
	}
	if err := os.Chown(path, -1, gid); err != nil {
		if errors.Is(err, fs.ErrPermission) {
			return fmt.Errorf("%w: only root may give a file to a group that it is not itself a member of", err)
		}
		return err
	}
	return nil
}

// makeSocketDir makes the directory of a socket when it is not there. One that
// is there stays as it is, and has to let the group in.
func makeSocketDir(dir string, gid int) error {
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		if err := os.MkdirAll(dir, socketDirMode); err != nil {
			return fmt.Errorf("make its directory: %w", err)
		}
		return giveTo(dir, gid)
	}
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("make its directory: %q is something else", dir)
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && gid != ownGroup {
		const forGroup, forAll = 0o010, 0o001
		if mode := info.Mode().Perm(); mode&forAll == 0 && (int(stat.Gid) != gid || mode&forGroup == 0) {
			return fmt.Errorf("its directory does not let the group in: chgrp %d %s && chmod g+x %s", gid, dir, dir)
		}
	}
	return nil
}

// removeStaleSocket removes a socket at path that nobody listens on.
func removeStaleSocket(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() != fs.ModeSocket:
		return fmt.Errorf("there is %s, which is not a socket; move it away or name another path", kindOf(info.Mode()))
	}
	conn, err := net.DialTimeout("unix", path, socketProbeTimeout)
	switch {
	case err == nil:
		defer func() { _ = conn.Close() }()
		return fmt.Errorf("another hpad%s answers on it; stop that one or give this one another socket", peerName(conn))
	case errors.Is(err, syscall.ECONNREFUSED):
		return os.Remove(path)
	case errors.Is(err, fs.ErrNotExist):
		return nil
	default:
		return fmt.Errorf("see whether another hpad answers on it: %w", err)
	}
}

// kindOf says what a file is.
func kindOf(mode fs.FileMode) string {
	switch {
	case mode.IsRegular():
		return "a file"
	case mode.IsDir():
		return "a directory"
	case mode&fs.ModeSymlink != 0:
		return "a symbolic link"
	}
	return "something"
}

// Socket is a listener on a unix socket. Close removes the socket, unless somebody put
// another one in its place. It is safe for concurrent use.
type Socket struct {
	path, group string

	mu       sync.Mutex
	listener *net.UnixListener
	info     fs.FileInfo
	closed   bool
}

// Accept waits for the next connection, also over a renewal.
func (s *Socket) Accept() (net.Conn, error) {
	for {
		s.mu.Lock()
		listener := s.listener
		s.mu.Unlock()
		conn, err := listener.Accept()
		if err == nil || !errors.Is(err, net.ErrClosed) || !s.renewedSince(listener) {
			return conn, err
		}
	}
}

func (s *Socket) renewedSince(listener *net.UnixListener) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.listener != listener
}

// Addr returns the address of the socket.
func (s *Socket) Addr() net.Addr { return &net.UnixAddr{Name: s.path, Net: "unix"} }

// Renew makes the socket again if it was removed, and reports whether it was. What
// somebody put in its place stays.
func (s *Socket) Renew() (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := os.Lstat(s.path); s.closed || !errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	nothing := func(string) error { return nil } // what is there by now is another one's
	listener, info, err := listenSocket(s.path, s.group, nothing)
	if err != nil {
		return true, err
	}
	_ = s.listener.Close() // nobody reaches it
	s.listener, s.info = listener, info
	return true, nil
}

// Close stops listening and removes the socket.
func (s *Socket) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	var removed error
	if info, err := os.Lstat(s.path); err == nil && os.SameFile(info, s.info) {
		if err := os.Remove(s.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			removed = err
		}
	}
	return errors.Join(removed, s.listener.Close())
}
