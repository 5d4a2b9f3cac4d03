package faults

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hpad/hpad/test/internal/ports"
	"github.com/hpad/hpad/test/internal/program"
	"github.com/hpad/hpad/test/soak"
	"github.com/hpad/hpad/test/wait"
)

// clientFaults lists misbehaving clients. The function do is called for each connection.
var clientFaults = []struct {
	name    string
	clients int
	do      func(conn net.Conn, ticks <-chan time.Time)
}{
	{"send nothing", 100, func(_ net.Conn, ticks <-chan time.Time) {
		for range ticks {
		}
	}},
	{"send a byte a second", 100, func(conn net.Conn, ticks <-chan time.Time) {
		for _, b := range []byte("GET /metrics HTTP/1.1\r\nHost: localhost\r\nX-Slow: " + strings.Repeat("x", 1000)) {
			if _, ok := <-ticks; !ok {
				return
			}
			_, _ = conn.Write([]byte{b})
		}
	}},
	{"do not read", 100, func(conn net.Conn, ticks <-chan time.Time) {
		request := []byte("GET /api/v1/autoscalers HTTP/1.1\r\nHost: localhost\r\n\r\n")
		for range ticks {
			_ = conn.SetWriteDeadline(time.Now().Add(time.Second))
			_, _ = conn.Write(bytes.Repeat(request, 20))
		}
	}},
	{"do not read an export", 20, func(conn net.Conn, ticks <-chan time.Time) {
		_, _ = conn.Write([]byte("GET /api/v1/state HTTP/1.1\r\nHost: localhost\r\n\r\n"))
		for range ticks {
		}
	}},
	{"send garbage", 100, func(conn net.Conn, ticks <-chan time.Time) {
		garbage := make([]byte, 64<<10)
		for n := range garbage {
			garbage[n] = byte(rand.Uint32())
		}
		for range ticks {
			_ = conn.SetWriteDeadline(time.Now().Add(time.Second))
			_, _ = conn.Write(garbage)
		}
	}},
	{"post an endless body", 20, func(conn net.Conn, ticks <-chan time.Time) {
		_, _ = conn.Write([]byte("POST /-/reload HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000000000\r\n\r\n"))
		body := make([]byte, 64<<10)
		for range ticks {
			_ = conn.SetWriteDeadline(time.Now().Add(time.Second))
			_, _ = conn.Write(body)
		}
	}},
	{"send requests as fast as possible", 300, func(conn net.Conn, ticks <-chan time.Time) {
		buffer := make([]byte, 1<<20)
		for range ticks {
			for range 5 {
				_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
				_, _ = conn.Write([]byte("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\nGET /api/v1/autoscalers HTTP/1.1\r\nHost: localhost\r\n\r\n"))
				_, _ = conn.Read(buffer)
			}
		}
	}},
}

// TestClients connects hundreds of misbehaving clients to hpad's address and socket at the same
// time. hpad must continue to respond to the CLI and to evaluate.
func TestClients(t *testing.T) {
	w := newWorld(t, 40, 5)
	address := ports.Free(t)
	p := program.Prepare(t, program.Options{Config: w.config.String(), Daemon: fmt.Sprintf("listen = %q\nsync_period = \"%ds\"\n", address, period)})
	p.Start()
	p.Passes(w.steady[0], 2)
	before := uses(t, p)
	end := w.watch(t, p)
	stop := make(chan struct{})
	var clients sync.WaitGroup
	var connected atomic.Int64
	for _, fault := range clientFaults {
		for n := range fault.clients {
			network, at := "tcp", address
			if n%10 == 0 { // hpad limits connections to the socket less strictly
				network, at = "unix", p.Socket()
			}
			clients.Go(func() { connectRepeatedly(network, at, fault.do, stop, &connected) })
		}
	}
	calls := 0
	for deadline := time.Now().Add(time.Duration(soak.Rounds(8, 600)) * time.Second); time.Now().Before(deadline); calls++ {
		if output := p.Says("get"); !strings.Contains(output, w.steady[0]) {
			t.Errorf("output of hpad get = %s", output)
		}
	}
	wait.For(t, patience, "500 connections", func() (string, bool) {
		return fmt.Sprint(connected.Load()), connected.Load() >= 500
	})
	t.Logf("%d connections, %d calls of hpad get", connected.Load(), calls)
	end()
	close(stop)
	clients.Wait()
	wantNoLeak(t, p, before)
	response, err := http.Get("http://" + address + "/-/healthy")
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, response.Body)
	_ = response.Body.Close()
	if response.StatusCode != http.StatusOK {
		t.Errorf("status of /-/healthy after the test = %s, want 200", response.Status)
	}
	p.Stop()
}

// connectRepeatedly repeatedly opens a connection and calls do until stop.
func connectRepeatedly(network, address string, do func(net.Conn, <-chan time.Time), stop <-chan struct{}, connected *atomic.Int64) {
	for {
		select {
		case <-stop:
			return
		default:
		}
		conn, err := net.DialTimeout(network, address, 5*time.Second)
		if err != nil {
			pauseFor(100 * time.Millisecond)
			continue
		}
		connected.Add(1)
		ticks := make(chan time.Time)
		done := make(chan struct{})
		go func() {
			defer close(done)
			do(conn, ticks)
		}()
		// A connection lasts five seconds.
		pace := time.NewTicker(time.Second)
		for n := 0; n < 5; n++ {
			select {
			case now := <-pace.C:
				select {
				case ticks <- now:
				case <-done:
				case <-stop:
				}
			case <-stop:
				n = 5
			}
		}
		pace.Stop()
		close(ticks)
		_ = conn.Close()
		<-done
	}
}
