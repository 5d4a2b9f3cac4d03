package systemd

import (
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hpad/hpad/test/internal/parallel"
	"github.com/hpad/hpad/test/internal/program"
)

// Environment variables of a worker: its control directory and its instance name.
const (
	controlVariable = "HPAD_SYSTEMDTEST_CONTROL"
	indexVariable   = "HPAD_SYSTEMDTEST_INDEX"
)

func TestMain(m *testing.M) {
	if control := os.Getenv(controlVariable); control != "" {
		work(control, os.Getenv(indexVariable))
	}
	code := parallel.Run(m, 6)
	program.Clean()
	os.Exit(code)
}

// workerUnit returns a unit file that runs this test binary as a worker.
func workerUnit(kind, control, more string) string {
	return fmt.Sprintf("[Service]\nType=%s\nExecStart=%s\nEnvironment=%s=%s %s=%%i GORACE=atexit_sleep_ms=0\n%s\n",
		kind, os.Args[0], controlVariable, control, indexVariable, more)
}

// pollInterval is the poll interval of a worker for its control directory.
const pollInterval = 20 * time.Millisecond

// work runs a worker. Files in the control directory change its behavior: "unready" and
// "unready-INDEX" delay readiness, "crash-INDEX" makes it exit with status 1, "slow" delays its
// stop by 1 s, and "burn-INDEX" makes it use a full core.
func work(control, index string) {
	// The worker must exit when the manager exits, as if its control group had been killed.
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		panic(err)
	}
	hasFile := func(name string) bool {
		_, err := os.Stat(filepath.Join(control, name))
		return err == nil
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	ready := false
	ticker := time.NewTicker(pollInterval)
	for {
		if hasFile("crash-" + index) {
			os.Exit(1)
		}
		if !ready && !hasFile("unready") && !hasFile("unready-"+index) {
			ready = true
			notify("READY=1")
		}
		for begun := time.Now(); hasFile("burn-"+index) && time.Since(begun) < pollInterval; {
		}
		select {
		case <-stop:
			if hasFile("slow") {
				<-time.After(time.Second)
			}
			os.Exit(0)
		case <-ticker.C:
		}
	}
}

// notify sends a message to the manager if the manager has set a socket for it.
func notify(words string) {
	socket := os.Getenv("NOTIFY_SOCKET")
	if socket == "" {
		return
	}
	conn, err := net.Dial("unixgram", socket)
	if err != nil {
		panic(err)
	}
	if _, err := conn.Write([]byte(words)); err != nil {
		panic(err)
	}
	_ = conn.Close()
}
