package process

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/hpad/hpad/targets"
)

// portRetry is the time after which an instance that waits for a port looks again for ports that
// other programs have released.
const portRetry = 2 * time.Second

// socket is a TCP socket that listens.
type socket struct {
	port       int
	inode, uid string
}

// listeners returns the sockets that listen, by port. It returns nil if they cannot be read.
func listeners() map[int]socket {
	found := map[int]socket{}
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		text, _ := os.ReadFile(table)
		parseListeners(text, found)
	}
	return found
}

// parseListeners adds the listening sockets of a table, as described in proc_net(5).
func parseListeners(table []byte, to map[int]socket) {
	const listening = "0A"
	for line := range bytes.Lines(table) {
		fields := strings.Fields(string(line))
		if len(fields) < 10 || fields[3] != listening {
			continue
		}
		_, text, _ := strings.Cut(fields[1], ":")
		if port, err := strconv.ParseUint(text, 16, 16); err == nil {
			to[int(port)] = socket{port: int(port), inode: fields[9], uid: fields[7]}
		}
	}
}

// owner returns the name and number of the process that has a socket, or only its user if hpad
// must not read the files of the process.
func (s socket) owner() string {
	files, _ := filepath.Glob("/proc/[0-9]*/fd/*")
	for _, file := range files {
		if to, err := os.Readlink(file); err == nil && to == "socket:["+s.inode+"]" {
			dir := filepath.Dir(filepath.Dir(file))
			name, _ := os.ReadFile(dir + "/comm")
			return fmt.Sprintf("%q (PID %s)", strings.TrimSpace(string(name)), filepath.Base(dir))
		}
	}
	if known, err := user.LookupId(s.uid); err == nil {
		return fmt.Sprintf("a process of user %q", known.Username)
	}
	return "a process of user ID " + s.uid
}

// takenPorts describes ports that other programs use. It searches the owner of each socket once.
func (n *launcher) takenPorts(ports []int, all map[int]socket) string {
	texts := make([]string, len(ports))
	n.mu.Lock()
	defer n.mu.Unlock()
	for i, port := range ports {
		s := all[port]
		if i < 3 && n.sockets[s] == "" {
			n.sockets[s] = s.owner()
		}
		texts[i] = fmt.Sprintf("port %d is used by %s", port, n.sockets[s])
	}
	maps.DeleteFunc(n.sockets, func(s socket, _ string) bool { return all[s.port] != s })
	return targets.FirstThree(texts, ", ")
}

// takePort returns the lowest port of a range that no instance and no other program uses. If there
// is none, it calls blocked and waits. The argument of blocked describes the programs that use
// ports; "" if instances use all ports. The text taken describes
// the lower ports that other programs use.
func (n *launcher) takePort(ctx context.Context, ports portRange, blocked func(text string)) (port int, taken string, err error) {
	for {
		all := listeners()
		port, others, freed := n.tryPort(ports, all)
		if len(others) > 0 {
			taken = n.takenPorts(others, all)
		}
		if port != 0 {
			return port, taken, nil
		}
		var retry <-chan time.Time
		problem := ""
		if len(others) > 0 {
			problem = fmt.Sprintf("no port of %q is free: %s", ports, taken)
			retry = time.After(portRetry)
		}
		blocked(problem)
		select {
		case <-freed:
		case <-retry:
		case <-ctx.Done():
			return 0, "", ctx.Err()
		}
	}
}

// tryPort reserves the lowest free port, or returns 0. It also returns the ports before it that
// other programs use, and a channel that is closed when an instance releases a port.
func (n *launcher) tryPort(ports portRange, all map[int]socket) (int, []int, <-chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	var others []int
	for port := ports.first; port <= ports.last; port++ {
		if n.ports[port] {
			continue
		}
		if _, used := all[port]; used {
			others = append(others, port)
			continue
		}
		n.ports[port] = true
		return port, others, n.freed
	}
	return 0, others, n.freed
}

// choosePort sets the port of an instance without a running process. It keeps a port until
// another program listens on it.
func (i *instance) choosePort() error {
	ports, err := parsePorts(i.config.Ports)
	if err != nil || ports.count() == 0 {
		return nil
	}
	if i.port != 0 {
		if _, used := listeners()[i.port]; !used {
			return nil
		}
		i.setPort(0)
	}
	port, taken, err := i.launcher.takePort(i.leaving, ports, i.setBlocked)
	if err != nil {
		return err
	}
	if taken != "" {
		i.out.printf("%s: %s; using port %d", i.name, taken, port)
	}
	i.setPort(port)
	return nil
}

// setPort releases the previous port, and records the new one.
func (i *instance) setPort(port int) {
	if i.port != 0 {
		i.launcher.freePort(i.port)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.blocked = i.blocked && port == 0
	if i.port, i.location = port, i.locate(port); port != 0 && i.last.times == 0 {
		i.last = failure{} // from setBlocked
	}
}

// setBlocked records that the instance waits for a port, and the problem of other programs that use
// ports, or "".
func (i *instance) setBlocked(problem string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.blocked = true
	if problem != "" {
		i.last = failure{text: problem}
	}
}

// isBlocked reports whether the instance waits for a port.
func (i *instance) isBlocked() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.blocked
}
