package state

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// anew removes a directory with all that is in it and makes an empty one in its place.
func anew(t *testing.T, dir string) {
	t.Helper()
	if err := errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o700)); err != nil {
		t.Fatal(err)
	}
}

// TestHeldWhenMadeAgain removes the directory of another process and makes it again:
// it stays that one's, also through a bind mount of the directory above it.
func TestHeldWhenMadeAgain(t *testing.T) {
	above, mount := t.TempDir(), t.TempDir()
	dir := filepath.Join(above, "state")
	process := holdElsewhere(t, dir, nil)
	anew(t, dir)
	paths := []string{dir}
	if err := unix.Mount(above, mount, "", unix.MS_BIND, ""); err == nil {
		t.Cleanup(func() {
			if err := unix.Unmount(mount, 0); err != nil {
				t.Errorf("unmount: %v", err)
			}
		})
		paths = append(paths, filepath.Join(mount, "state"))
	} else {
		t.Logf("without a bind mount: %v", err)
	}
	for _, path := range paths {
		_, err := take(path, &claim{}, time.Time{})
		if held := new(HeldError); !errors.As(err, &held) || held.PID != process.Process.Pid || held.Dir != path {
			t.Errorf("%s: claiming it returns %v, want a HeldError about process %d", path, err, process.Process.Pid)
		}
		if names, err := os.ReadDir(dir); err != nil || len(names) != 0 {
			t.Errorf("%s: the directory has %v, %v; want nothing", path, names, err)
		}
	}
	if err := process.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = process.Wait() // it was killed
	closeStore(t, open(t, dir))
}

// TestHeldInNamespaces has the other process in namespaces of its own, as in a
// container. Where it has a network of its own, a directory that was made again in
// place of the one it holds looks the same; docs/operations.md says so.
func TestHeldInNamespaces(t *testing.T) {
	for _, test := range []struct {
		name    string
		flags   uintptr
		network bool
	}{
		{"mounts", unix.CLONE_NEWNS, false},
		{"processes", unix.CLONE_NEWPID, false},
		{"networks", unix.CLONE_NEWNET, true},
		{"all", unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			attributes := &syscall.SysProcAttr{Cloneflags: test.flags}
			if os.Geteuid() != 0 { // a namespace of users lets anybody have the others
				attributes.Cloneflags |= unix.CLONE_NEWUSER
				attributes.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}}
				attributes.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getgid(), HostID: os.Getgid(), Size: 1}}
			}
			dir := filepath.Join(t.TempDir(), "state")
			holdElsewhere(t, dir, attributes)
			want := func(what string, held bool) {
				t.Helper()
				c, err := take(dir, &claim{}, time.Time{})
				if errors.As(err, new(*HeldError)) != held {
					t.Errorf("%s: claiming it returns %v, want it held: %t", what, err, held)
				}
				if err == nil {
					if err := c.release(&claim{}); err != nil {
						t.Error(err)
					}
				}
			}
			want("as it is", true)
			empty(t, dir)
			want("emptied", true)
			anew(t, dir)
			want("made again", !test.network)
		})
	}
}

// TestStranger has a user whom the directory has nothing to do with take its place,
// which keeps nobody from it, and users whom it has to do with.
func TestStranger(t *testing.T) {
	dir := t.TempDir()
	directory, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = directory.Close() }()
	own := os.Geteuid()
	for _, test := range []struct {
		name string
		peer unix.Ucred
		want bool
	}{
		{"root", unix.Ucred{Pid: 1, Uid: 0}, true},
		{"itself", unix.Ucred{Pid: 1, Uid: uint32(own)}, true},
		{"another user", unix.Ucred{Pid: 1, Uid: 4711}, false},
		{"another user with the same program", unix.Ucred{Pid: int32(os.Getpid()), Uid: 4711}, own == 0},
		{"another user of whom nothing is known", unix.Ucred{Uid: 65534}, false},
	} {
		if got := belongs(&test.peer, directory); got != test.want {
			t.Errorf("%s: it belongs: %t, want %t", test.name, got, test.want)
		}
	}
	if own == 0 {
		if err := os.Chown(dir, 4711, -1); err != nil {
			t.Fatal(err)
		}
		if !belongs(&unix.Ucred{Pid: 1, Uid: 4711}, directory) {
			t.Error("the directory's owner does not belong to it")
		}
	}

	// Somebody who has the name and does not listen is no hpad.
	key, err := keyOf(directory)
	if err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(fd) }()
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: placeName(key)}); err != nil {
		t.Fatal(err)
	}
	c, err := take(dir, &claim{}, time.Time{})
	if err != nil || c.place != nil {
		t.Fatalf("take() = %+v, %v; want a claim without a place", c, err)
	}
	if err := c.release(&claim{}); err != nil {
		t.Error(err)
	}
}

// TestManyRefused starts more daemons in vain than may wait to be noticed.
func TestManyRefused(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	defer closeStore(t, s)
	for n := range 3 * waiting {
		if n%(waiting/2) == 0 {
			commit(t, s, Changes{LastRound: epoch}) // as each round does
		}
		_, err := take(dir, &claim{}, time.Time{})
		if held := new(HeldError); !errors.As(err, &held) || held.PID != os.Getpid() {
			t.Fatalf("the %d. daemon is refused by %v", n+1, err)
		}
	}
}

func TestKeyOfPlace(t *testing.T) {
	const mounts = `22 1 259:2 / / rw,relatime shared:1 - ext4 /dev/nvme0n1p2 rw
30 22 0:27 / /run rw,nosuid shared:5 - tmpfs tmpfs rw
41 22 259:2 /srv/volumes/a /var/lib/hpad rw,relatime - ext4 /dev/nvme0n1p2 rw
42 22 259:2 /srv/volumes/b//deleted /data rw,relatime - ext4 /dev/nvme0n1p2 rw
43 22 0:50 / /mnt/a\040b rw - tmpfs tmpfs rw
`
	for _, test := range []struct{ id, path, want string }{
		{"22", "/var/lib/other", "259:2:/var/lib/other"},
		{"22", "/", "259:2:/"},
		{"30", "/run/hpad/state", "0:27:/hpad/state"},
		{"41", "/var/lib/hpad", "259:2:/srv/volumes/a"},
		{"41", "/var/lib/hpad/state", "259:2:/srv/volumes/a/state"},
		{"22", "/srv/volumes/a/state", "259:2:/srv/volumes/a/state"},
		{"42", "/data/state", "259:2:/srv/volumes/b/state"},
		{"43", "/mnt/a b/state", "0:50:/state"},
		{"43", "/elsewhere", ""},
		{"99", "/var", ""},
		{"", "/var", ""},
	} {
		got, err := keyIn([]byte(mounts), test.id, test.path)
		if got != test.want || (err == nil) != (test.want != "") {
			t.Errorf("keyIn(%q, %q) = %q, %v; want %q", test.id, test.path, got, err, test.want)
		}
	}
	dir := t.TempDir()
	directory, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = directory.Close() }()
	key, err := keyOf(directory)
	if err != nil || !strings.HasSuffix(key, "/"+filepath.Base(dir)) {
		t.Errorf("keyOf(%q) = %q, %v", dir, key, err)
	}
	if info := "pos:\t0\nflags:\t02100000\nmnt_id:\t41\nino:\t2\n"; mountID([]byte(info)) != "41" {
		t.Errorf("the mount is %q, want 41", mountID([]byte(info)))
	}
}
