package dockertest

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// newNetwork moves the calling thread into a new network namespace with a loopback interface.
func newNetwork() error {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("create a network namespace: %w", err)
	}
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open a socket in the new network: %w", err)
	}
	defer func() { _ = unix.Close(socket) }()
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	lo.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(socket, unix.SIOCSIFFLAGS, lo); err != nil {
		return fmt.Errorf("bring lo up in the new network: %w", err)
	}
	return nil
}

// Dial connects to an IP address and port in the engine's network, such as a published port on
// 127.0.0.1 or a container.
func (e *Engine) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	type result struct {
		connection net.Conn
		err        error
	}
	results := make(chan result, 1)
	pid := e.process.Command.Process.Pid
	go func() {
		// Without UnlockOSThread the thread ends with the goroutine.
		runtime.LockOSThread()
		namespace, err := unix.Open(fmt.Sprintf("/proc/%d/ns/net", pid), unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			results <- result{err: fmt.Errorf("open the network of dockerd: %w", err)}
			return
		}
		defer func() { _ = unix.Close(namespace) }()
		if err := unix.Setns(namespace, unix.CLONE_NEWNET); err != nil {
			results <- result{err: fmt.Errorf("enter the network of dockerd: %w", err)}
			return
		}
		var dialer net.Dialer
		connection, err := dialer.DialContext(ctx, network, address)
		results <- result{connection, err}
	}()
	a := <-results
	return a.connection, a.err
}

// HTTP returns an HTTP client in the engine's network.
func (e *Engine) HTTP() *http.Client {
	return &http.Client{
		Timeout:   time.Minute,
		Transport: &http.Transport{DisableKeepAlives: true, DialContext: e.Dial},
	}
}
