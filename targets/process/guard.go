package process

import (
	"fmt"
	"io"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// Instances end with hpad in three ways. Close stops them gracefully. When hpad dies
// otherwise, the kernel kills each instance's first process (PDEATHSIG, see nursery),
// and what that process has started is killed by the guard: a small shell that reads the
// process groups from a pipe, and kills those still there when the pipe ends, as it does
// with hpad. What leaves its process group on purpose escapes the guard; under systemd
// the unit's control group still holds it.
//
// One shell serves a whole fleet: a supervisor for each instance, or hpad's own binary
// in the shell's place, would do the same for many times the memory.

// guardScript keeps the groups in $groups as " 12 34 ". It survives what is meant
// for hpad: a terminal's interrupt, or a SIGTERM to all of a unit's processes.
const guardScript = `trap '' HUP INT QUIT TERM
groups=' '
while read -r change group; do
	case $change in
	+) groups="$groups$group " ;;
	-) groups="${groups%% $group *} ${groups#* $group }" ;;
	esac
done
for group in $groups; do kill -s KILL -- "-$group"; done
`

// guardRestart is how long a guard that ended by itself stays away.
const guardRestart = 100 * time.Millisecond

// guard keeps the shell informed of the process groups, and starts it again when it ends
// too early. Its zero value is ready.
type guard struct {
	mu     sync.Mutex
	groups map[int]bool
	pipe   io.WriteCloser
	closed chan struct{}
	ended  sync.WaitGroup
}

// ready starts the shell where there is none, before the group is there that it is to
// guard.
func (g *guard) ready() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.readyLocked()
}

func (g *guard) readyLocked() error {
	if g.closed == nil {
		g.closed, g.groups = make(chan struct{}), map[int]bool{}
	}
	if g.pipe != nil {
		return nil
	}
	return g.startLocked()
}

// add guards a group. An error means that nothing guards it now.
func (g *guard) add(group int) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.readyLocked(); err != nil {
		return err
	}
	g.groups[group] = true
	return g.send("+", group)
}

// remove takes a group back, before its number can mean another one.
func (g *guard) remove(group int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.groups, group)
	if g.pipe != nil {
		// A shell that is gone is started again, with the groups there are.
		_ = g.send("-", group)
	}
}

func (g *guard) close() {
	g.mu.Lock()
	if g.closed != nil {
		close(g.closed)
	}
	if g.pipe != nil {
		_ = g.pipe.Close()
	}
	g.mu.Unlock()
	g.ended.Wait()
}

func (g *guard) send(change string, group int) error {
	_, err := fmt.Fprintln(g.pipe, change, group)
	if err != nil {
		return fmt.Errorf("tell the guard of process group %d: %w", group, err)
	}
	return nil
}

// startLocked starts the shell with all groups there are.
func (g *guard) startLocked() error {
	// The shell's group is its own, and no PDEATHSIG ends it.
	cmd := exec.Command("sh", "-c", guardScript, "hpad-guard")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	pipe, err := cmd.StdinPipe()
	if err != nil {
		return fmt.Errorf("start the guard: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start the guard: %w", err)
	}
	g.pipe = pipe
	g.ended.Go(func() { g.watch(cmd) })
	for group := range g.groups {
		if err := g.send("+", group); err != nil {
			return err
		}
	}
	return nil
}

// watch waits for the shell's end, and starts another unless the guard is closed.
func (g *guard) watch(cmd *exec.Cmd) {
	_ = cmd.Wait() // how it ended does not matter
	g.mu.Lock()
	g.pipe = nil
	g.mu.Unlock()
	for {
		select {
		case <-g.closed:
			return
		case <-time.After(guardRestart):
		}
		if g.revive() {
			return
		}
	}
}

// revive starts the shell where there is none, and reports whether none is needed any
// more.
func (g *guard) revive() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-g.closed:
		return true
	default:
	}
	return g.pipe != nil || g.startLocked() == nil
}
