package process

import (
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/hpad/hpad/guard"
)

// launcher starts processes and assigns ports. Fleets that succeed each other at reloads share
// it. The last fleet stops it.
type launcher struct {
	starts    chan func()
	relay     *relay
	collector *collector

	mu     sync.Mutex
	owners int
	ended  chan struct{}
	ports  map[int]bool
	// sockets contains the owners of sockets on ports that other programs use.
	sockets map[socket]string
	// freed is closed and replaced when a port is released.
	freed chan struct{}
}

// newLauncher returns a launcher with one owner. outputDir is the directory for output.
func newLauncher(outputDir string) *launcher {
	n := &launcher{starts: make(chan func()), relay: newRelay(), owners: 1, ended: make(chan struct{}), ports: map[int]bool{}, sockets: map[socket]string{}, freed: make(chan struct{})}
	n.collector = newCollector(outputDir, func(cmd *exec.Cmd) (*child, error) { return n.start(cmd, false) }, n.collectAll)
	guard.Go(n.startAll)
	return n
}

func (n *launcher) share() *launcher {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.owners++
	return n
}

// release removes an owner. The last owner must call it after all children have ended.
func (n *launcher) release() {
	n.mu.Lock()
	n.owners--
	last := n.owners == 0
	n.mu.Unlock()
	if last {
		n.collector.close()
		close(n.starts)
		<-n.ended
		n.relay.stop()
	}
}

// collectAll continues to collect the output of all instances after the collector has ended.
func (n *launcher) collectAll() {
	for _, o := range n.relay.all() {
		_, _ = o.collect(collectorStart) // the output waits in the FIFO
	}
}

// startAll starts processes on one thread that lives as long as they do, because the kernel
// sends PDEATHSIG when the thread that started a process ends.
func (n *launcher) startAll() {
	defer close(n.ended)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for start := range n.starts {
		start()
	}
}

// reservePort takes a port that an adopted process uses.
func (n *launcher) reservePort(port int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ports[port] = true
}

func (n *launcher) freePort(port int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.ports, port)
	close(n.freed)
	n.freed = make(chan struct{})
}

// start starts a process as the leader of its own process group. If bound is set, the kernel kills
// the process, but not its children, when hpad ends.
func (n *launcher) start(cmd *exec.Cmd, bound bool) (*child, error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if bound {
		cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	}
	started := make(chan error)
	n.starts <- func() { started <- guard.Call(cmd.Start) }
	if err := <-started; err != nil {
		return nil, err
	}
	c, err := openChild(cmd.Process.Pid, time.Now(), "")
	if err != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		return nil, err
	}
	c.bound = bound
	_ = cmd.Process.Release() // child waits for the process
	guard.Go(c.wait)
	return c, nil
}
