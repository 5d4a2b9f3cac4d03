package process

import (
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// occupy listens on a port until the test or the returned function ends.
func occupy(t *testing.T, address string, port int) (release func()) {
	t.Helper()
	l, err := net.Listen("tcp", fmt.Sprintf("%s:%d", address, port))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return func() { _ = l.Close() }
}

// TestPortsOfOthers checks that instances do not use ports on which other programs listen, neither
// at their first start nor after a crash.
func TestPortsOfOthers(t *testing.T) {
	for _, address := range []string{"127.0.0.1", "0.0.0.0", "[::]", "[::1]"} {
		t.Run(address, func(t *testing.T) {
			w := newFixture(t, 1)
			w.alter("a", func(s *Service) { s.RestartBackoffMin, s.RestartBackoffMax = time.Second, time.Second })
			occupy(t, address, basePort)
			f := start(t, w.open(t))
			if got := ports(settled(t, f, "a", 1)); !slices.Equal(got, []int{basePort + 1}) {
				t.Errorf("port = %v, want %d", got, basePort+1)
			}
			if err := syscall.Kill(f.services["a"].instances()[0].leader(), syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			wantNotice(t, f, "a", processRestarting, "signal: killed")
			occupy(t, address, basePort+1)
			eventually(t, func() string {
				if got := ports(settled(t, f, "a", 1)); !slices.Equal(got, []int{basePort + 2}) {
					return fmt.Sprintf("port = %v, want %d", got, basePort+2)
				}
				return ""
			})
			eventually(t, func() string {
				for _, port := range []int{basePort, basePort + 1} {
					want := fmt.Sprintf("port %d is used by %q (PID %d)", port, filepath.Base(os.Args[0]), os.Getpid())
					if got := w.output.String(); !strings.Contains(got, want) {
						return fmt.Sprintf("the output %q lacks %q", got, want)
					}
				}
				return ""
			})
		})
	}
}

// TestNoFreePort checks that an instance without a free port names the listener, and starts when
// the port is released.
func TestNoFreePort(t *testing.T) {
	w := newFixture(t, 1)
	w.alter("a", func(s *Service) { s.Ports = fmt.Sprint(basePort) })
	release := occupy(t, "", basePort)
	f := start(t, w.open(t))
	wantNotice(t, f, "a", processNotStarted, fmt.Sprintf("no port of \"%d-%d\" is free: port %[1]d is used by", basePort, basePort))
	release()
	settled(t, f, "a", 1)
	wantNotice(t, f, "a", "", "")
}

func TestParseListeners(t *testing.T) {
	got := map[int]socket{}
	parseListeners([]byte(`  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:2383 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 4242 1 0000000000000000 100 0 0 10 0
   1: 0100007F:2384 0100007F:9C40 01 00000000:00000000 00:00000000 00000000     0        0 4243 1 0000000000000000 100 0 0 10 0
   2: 00000000000000000000000001000000:0050 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 7 1 0 100 0 0 10 0
   3: 0100007F:XXXX
`), got)
	want := map[int]socket{9091: {9091, "4242", "1000"}, 80: {80, "7", "0"}}
	if !maps.Equal(got, want) {
		t.Errorf("parseListeners() = %v, want %v", got, want)
	}
}
