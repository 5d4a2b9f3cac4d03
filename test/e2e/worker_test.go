package e2e

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hpad/hpad/test/wait"
)

// workerVariable makes the test binary a worker; its value is the directory
// that steers it.
const workerVariable = "E2E_WORKER"

// work serves /metrics on HPAD_PORT until SIGTERM: the values that the test
// wrote into the directory, as they are at the moment.
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

// load sets a value that all workers show, at once for each scrape.
func (w *world) load(name string, value int) {
	w.t.Helper()
	file := filepath.Join(w.control, name)
	if err := os.WriteFile(file+".new", fmt.Append(nil, value), 0o600); err != nil {
		w.t.Fatal(err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		w.t.Fatal(err)
	}
}

// workers returns the process ids of the workers that serve, by port.
func (w *world) workers() map[int]string {
	client := http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	pids := map[int]string{}
	for port := w.first; port <= w.last; port++ {
		if pid, err := get(&client, fmt.Sprintf("http://127.0.0.1:%d/pid", port)); err == nil {
			pids[port] = pid
		}
	}
	return pids
}

// awaitWorkers waits until so many workers serve.
func (w *world) awaitWorkers(want int) {
	w.t.Helper()
	eventually(w.t, fmt.Sprintf("%d workers serve", want), 10*time.Second, func() (string, bool) {
		pids := w.workers()
		return fmt.Sprint("workers by port: ", pids), len(pids) == want
	})
}

// worldVariable is in the environment of each hpad, and so in that of all that
// it starts; its value differs between worlds.
const worldVariable = "E2E_WORLD"

// noneLeft waits until no process of this world is left: neither hpad nor a
// worker nor a guard of them.
func (w *world) noneLeft() {
	w.t.Helper()
	eventually(w.t, "no process is left", 10*time.Second, func() (string, bool) {
		found, err := filepath.Glob("/proc/[0-9]*/environ")
		if err != nil {
			return err.Error(), false
		}
		var left []string
		for _, path := range found {
			environment, err := os.ReadFile(path)
			if err != nil {
				continue // It has ended, or is somebody else's.
			}
			if slices.Contains(strings.Split(string(environment), "\x00"), worldVariable+"="+w.control) {
				command, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "cmdline"))
				left = append(left, fmt.Sprintf("%s %q", path, command))
			}
		}
		return strings.Join(left, ", "), len(left) == 0
	})
}

// eventually waits until something is so; ok also says how it is now.
func eventually(t testing.TB, what string, limit time.Duration, ok func() (string, bool)) {
	t.Helper()
	wait.For(t, limit, "state in which "+what, ok)
}
