package state

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// place is the claim on where a directory is, whatever directory is there: a
// listening socket in the abstract namespace, whose name is made of the file system
// and the path in it. It is the same through symbolic links and bind mounts, and
// goes with the process. Processes see it that share a network namespace.
type place struct {
	fd  int
	key string
}

// waiting bounds how many refused daemons may wait to be noticed.
const waiting = 128

// takePlace claims the place of a directory, or returns a HeldError. Before, if not
// nil, is what this process has. The place is nil where the kernel does not show where
// the directory is, where it lets hpad have no such socket, and where a stranger is in
// the way, who must not keep daemons from starting: the other locks hold all the same.
func takePlace(directory *os.File, before *place, deadline time.Time) (*place, error) {
	key, err := keyOf(directory)
	if err != nil {
		return nil, nil //nolint:nilerr,nilnil // as said
	}
	if before != nil && before.key == key {
		return before, nil
	}
	name := placeName(key)
	p := &place{key: key}
	err = retry(deadline, func() (err error) {
		if p.fd, err = bind(name); errors.Is(err, unix.EADDRINUSE) {
			return errHeld
		}
		return err
	})
	if errors.Is(err, errHeld) {
		if held := holderOf(name, directory); held != nil {
			return nil, held
		}
	}
	if err != nil {
		return nil, nil //nolint:nilnil // as said
	}
	return p, nil
}

// placeName is the name of the socket of a place. A name has an end, which paths
// need not have.
func placeName(key string) string {
	sum := sha256.Sum256([]byte(key))
	return "@hpad/state/" + hex.EncodeToString(sum[:16])
}

func bind(name string) (int, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	err = unix.Bind(fd, &unix.SockaddrUnix{Name: name})
	if err == nil {
		err = unix.Listen(fd, waiting)
	}
	if err != nil {
		return -1, errors.Join(err, unix.Close(fd))
	}
	return fd, nil
}

// holderOf returns who has a name; nil when nobody has by now, or a stranger.
func holderOf(name string, directory *os.File) *HeldError {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer func() { _ = unix.Close(fd) }()
	if err := unix.Connect(fd, &unix.SockaddrUnix{Name: name}); err != nil {
		return nil
	}
	peer, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil || !belongs(peer, directory) {
		return nil
	}
	host, _ := os.Hostname() // an unknown host is an empty one
	return &HeldError{PID: int(peer.Pid), Host: host}
}

// belongs reports whether a process may be a daemon of the directory: one of root,
// of hpad's own user or of the directory's, and for root any that runs the same
// program.
func belongs(peer *unix.Ucred, directory *os.File) bool {
	own := os.Geteuid()
	if peer.Uid == 0 || int(peer.Uid) == own {
		return true
	}
	if info, err := directory.Stat(); err == nil {
		if stat, ok := info.Sys().(*syscall.Stat_t); ok && stat.Uid == peer.Uid {
			return true
		}
	}
	program, err := os.Stat("/proc/self/exe")
	other, otherErr := os.Stat(fmt.Sprintf("/proc/%d/exe", peer.Pid))
	return own == 0 && err == nil && otherErr == nil && os.SameFile(program, other)
}

// notice takes notice of the daemons that were refused, so that there is room for
// others. It does not wait.
func (p *place) notice() {
	if p == nil {
		return
	}
	for range waiting {
		fd, _, err := unix.Accept4(p.fd, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
		if err != nil {
			return
		}
		_ = unix.Close(fd)
	}
}

func (p *place) Close() error { return unix.Close(p.fd) }

// keyOf returns where an open directory is: the number of its file system and the
// path from there, which no bind mount changes.
func keyOf(directory *os.File) (string, error) {
	fd := strconv.Itoa(int(directory.Fd()))
	path, err := os.Readlink("/proc/self/fd/" + fd)
	if err != nil {
		return "", err
	}
	info, err := os.ReadFile("/proc/self/fdinfo/" + fd)
	if err != nil {
		return "", err
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return "", err
	}
	return keyIn(mounts, mountID(info), path)
}

// mountID returns the mount that a file was opened on, "" where fdinfo does not say.
func mountID(info []byte) string {
	for line := range strings.Lines(string(info)) {
		if id, ok := strings.CutPrefix(line, "mnt_id:"); ok {
			return strings.TrimSpace(id)
		}
	}
	return ""
}

// keyIn returns the key of a path on the mount of that id, see proc_pid_mountinfo(5).
func keyIn(mounts []byte, id, path string) (string, error) {
	for lines := bufio.NewScanner(bytes.NewReader(mounts)); lines.Scan(); {
		// id, parent, major:minor, root, mount point …
		fields := strings.Fields(lines.Text())
		if len(fields) < 5 || fields[0] != id {
			continue
		}
		rest, err := filepath.Rel(unescapeMount(fields[4]), path)
		if err != nil || rest == ".." || strings.HasPrefix(rest, "../") {
			return "", fmt.Errorf("%q is not below its mount point %q", path, fields[4])
		}
		root := strings.TrimSuffix(unescapeMount(fields[3]), "//deleted")
		return fields[2] + ":" + filepath.Join(root, rest), nil
	}
	return "", fmt.Errorf("mount %q is not listed", id)
}

// unescapeMount returns a path of mountinfo as it is.
var unescapeMount = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace
