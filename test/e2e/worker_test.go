package e2e

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// workerVariable is an environment variable that makes the test binary run as a worker. Its value
// is the directory that contains the metric values.
const workerVariable = "E2E_WORKER"

// work serves the values in the directory as /metrics on HPAD_PORT until it receives SIGTERM.
func work(dir string) error {
	listener, err := net.Listen("tcp", "127.0.0.1:"+os.Getenv("HPAD_PORT"))
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/metrics", func(w http.ResponseWriter, _ *http.Request) {
		for _, name := range []string{"queue_length", "sessions"} {
			value, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			fmt.Fprintf(w, "# TYPE worker_%s gauge\nworker_%s %s\n", name, name, value)
		}
	})
	mux.HandleFunc("/pid", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, os.Getpid()) })
	fmt.Println("serving as", os.Getenv("HPAD_INSTANCE"))
	return http.Serve(listener, mux)
}

// load sets a value that all workers export. The file is renamed so that the change is atomic.
func (w *fixture) load(name string, value int) {
	w.t.Helper()
	file := filepath.Join(w.control, name)
	if err := os.WriteFile(file+".new", fmt.Append(nil, value), 0o600); err != nil {
		w.t.Fatal(err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		w.t.Fatal(err)
	}
}

// workers returns the process IDs of the responding workers by port.
func (w *fixture) workers() map[int]string {
	client := newClient(5 * time.Second)
	pids := map[int]string{}
	for port := w.first; port <= w.last; port++ {
		if pid, err := get(client, fmt.Sprintf("http://127.0.0.1:%d/pid", port)); err == nil {
			pids[port] = pid
		}
	}
	return pids
}

// awaitWorkers waits until the given number of workers respond, and returns their process IDs by
// port.
func (w *fixture) awaitWorkers(want int) (pids map[int]string) {
	w.t.Helper()
	eventually(w.t, fmt.Sprintf("%d workers respond", want), func() (string, bool) {
		pids = w.workers()
		return fmt.Sprint("workers by port: ", pids), len(pids) == want
	})
	return pids
}

// testVariable is an environment variable of hpad and all its child processes. Its value is the
// directory of their test.
const testVariable = "E2E_TEST"

// awaitNoProcesses waits until hpad and its workers have exited.
func (w *fixture) awaitNoProcesses() {
	w.t.Helper()
	eventually(w.t, "no process remains", func() (string, bool) {
		found, err := filepath.Glob("/proc/[0-9]*/environ")
		if err != nil {
			return err.Error(), false
		}
		var left []string
		for _, path := range found {
			environment, err := os.ReadFile(path)
			if err != nil {
				continue // the process has exited or belongs to another user
			}
			if slices.Contains(strings.Split(string(environment), "\x00"), testVariable+"="+w.control) {
				command, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "cmdline"))
				left = append(left, fmt.Sprintf("%s %q", path, command))
			}
		}
		return strings.Join(left, ", "), len(left) == 0
	})
}
