package process

import (
	"fmt"
	"io"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// Instances end together with hpad in three ways. Close stops them gracefully. If hpad ends in
// any other way, the kernel kills the first process of each instance (PDEATHSIG, see launcher),
// and the guard kills the processes that it has started. The guard is a small shell that reads
// the process groups from a pipe, and kills them when the pipe is closed. A process that leaves
// its process group escapes the guard; under systemd it remains in the unit's control group.
//
// One shell serves the whole fleet. A supervisor for each instance, or hpad's own binary
// instead of the shell, would need much more memory.

// guardScript stores the groups in $groups in the form " 12 34 ". It ignores signals that are
// sent to hpad's terminal or to all processes of its unit.
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

// guardRestart is the wait before the guard is restarted after it has exited.
const guardRestart = 100 * time.Millisecond

// guard sends the process groups to the shell, and restarts the shell if it exits. The zero
// value is usable.
type guard struct {
	mu     sync.Mutex
	groups map[int]bool
	pipe   io.WriteCloser
	closed chan struct{}
	ended  sync.WaitGroup
}

// ready ensures that the shell is running before a group is created.
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

// add adds a group. If it returns an error, the group is not guarded.
func (g *guard) add(group int) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.readyLocked(); err != nil {
		return err
	}
	g.groups[group] = true
	return g.send("+", group)
}

// remove removes a group. It must be called before the group's number can be reused.
func (g *guard) remove(group int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.groups, group)
	if g.pipe != nil {
		// If this fails, the shell is restarted with the current groups.
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
		return fmt.Errorf("send process group %d to the guard: %w", group, err)
	}
	return nil
}

// startLocked starts the shell and sends it all groups.
func (g *guard) startLocked() error {
	// The shell runs in its own session, and without PDEATHSIG.
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

// watch waits until the shell exits, and restarts it unless the guard is closed.
func (g *guard) watch(cmd *exec.Cmd) {
	_ = cmd.Wait()
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

// revive restarts a missing shell, and reports whether watch can stop retrying.
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
