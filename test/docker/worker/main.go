// Command worker runs in the containers of the Docker tests. It serves HTTP on port 8080 or
// WORKER_PORT:
//
//	GET  /health       200, or 503 while the worker is not healthy
//	GET  /state        the worker's view of the container as JSON: see state
//	POST /set?KEY=V    sets burn (cores to burn) or health ("good", "bad")
//	POST /exit?code=N  exits
//	POST /eat          allocates 512 MiB
//
// Environment variables: WORKER_BURN, WORKER_HEALTH_AFTER (delay until it becomes healthy),
// WORKER_EXIT_AFTER (delay until it exits with status 1), WORKER_STOP_AFTER (delay of its exit
// after a signal), WORKER_STOP_CODE (its status then, default 0), WORKER_CONTROL (a directory
// with files "burn" and "health", whose contents work like /set).
//
// With arguments, it runs one command: "check" is the health check, "state" prints /state,
// "resolve NAME" prints the addresses of a name, "write PATH TEXT" writes a file.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "worker:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		return serve()
	}
	switch args[0] {
	case "check":
		return check()
	case "state":
		return json.NewEncoder(os.Stdout).Encode(see())
	case "resolve":
		addresses, err := net.LookupHost(args[1])
		slices.Sort(addresses)
		fmt.Println(strings.Join(addresses, "\n"))
		return err
	case "write":
		return os.WriteFile(args[1], []byte(args[2]), 0o644)
	default:
		return fmt.Errorf("unknown command %q", args[0])
	}
}

func port() string {
	if port := os.Getenv("WORKER_PORT"); port != "" {
		return port
	}
	return "8080"
}

func check() error {
	client := http.Client{Timeout: 10 * time.Second}
	response, err := client.Get("http://127.0.0.1:" + port() + "/health")
	if err != nil {
		return err
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return errors.New(response.Status)
	}
	return nil
}

type worker struct {
	// burn is the CPU use in thousandths of a core.
	burn atomic.Int64
	bad  atomic.Bool
	// healthy is the time from which the health check succeeds.
	healthy time.Time
	// changed wakes up spin.
	changed chan struct{}
	ends    sync.Once
	eaten   [][]byte
}

func serve() error {
	w := &worker{changed: make(chan struct{}, 1)}
	after, err := duration("WORKER_HEALTH_AFTER")
	if err != nil {
		return err
	}
	w.healthy = time.Now().Add(after)
	if err := w.set("burn", os.Getenv("WORKER_BURN")); err != nil {
		return err
	}
	end, err := duration("WORKER_EXIT_AFTER")
	if err != nil {
		return err
	}
	if end > 0 {
		time.AfterFunc(end, func() { w.end("exit after "+end.String(), 1) })
	}
	stop, err := duration("WORKER_STOP_AFTER")
	if err != nil {
		return err
	}
	code := 0
	if text := os.Getenv("WORKER_STOP_CODE"); text != "" {
		if code, err = strconv.Atoi(text); err != nil {
			return fmt.Errorf("WORKER_STOP_CODE: %w", err)
		}
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGUSR1)
	go func() {
		s := <-signals
		time.AfterFunc(stop, func() { w.end("signal "+s.String(), code) })
	}()
	go w.spin()
	if control := os.Getenv("WORKER_CONTROL"); control != "" {
		go w.obey(control)
	}
	http.HandleFunc("GET /health", w.health)
	http.HandleFunc("GET /state", func(rw http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(rw).Encode(see()) })
	http.HandleFunc("POST /set", w.change)
	http.HandleFunc("POST /exit", func(rw http.ResponseWriter, r *http.Request) {
		code, err := strconv.Atoi(r.FormValue("code"))
		if err != nil {
			http.Error(rw, err.Error(), http.StatusBadRequest)
			return
		}
		_ = http.NewResponseController(rw).Flush() // respond before the exit
		w.end("exit requested", code)
	})
	http.HandleFunc("POST /eat", func(http.ResponseWriter, *http.Request) { go w.eat() })
	fmt.Println("worker: ready")
	return http.ListenAndServe(":"+port(), nil)
}

// duration returns the duration in an environment variable, or 0 if it is not set.
func duration(variable string) (time.Duration, error) {
	text := os.Getenv(variable)
	if text == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", variable, err)
	}
	return d, nil
}

// end logs the reason and exits.
func (w *worker) end(why string, code int) {
	w.ends.Do(func() {
		fmt.Println("worker:", why)
		os.Exit(code)
	})
}

func (w *worker) health(rw http.ResponseWriter, _ *http.Request) {
	if w.bad.Load() || time.Now().Before(w.healthy) {
		rw.WriteHeader(http.StatusServiceUnavailable)
	}
}

func (w *worker) change(rw http.ResponseWriter, r *http.Request) {
	for key, values := range r.URL.Query() {
		if err := w.set(key, values[0]); err != nil {
			http.Error(rw, err.Error(), http.StatusBadRequest)
			return
		}
	}
}

// set changes a setting. An empty value restores the default.
func (w *worker) set(key, value string) error {
	switch key {
	case "burn":
		cores := 0.0
		if value != "" {
			var err error
			if cores, err = strconv.ParseFloat(value, 64); err != nil {
				return fmt.Errorf("cores to burn: %w", err)
			}
		}
		w.burn.Store(int64(math.Round(1000 * cores)))
		select {
		case w.changed <- struct{}{}:
		default:
		}
	case "health":
		w.bad.Store(value == "bad")
	default:
		return fmt.Errorf("unknown key %q", key)
	}
	return nil
}

// spin uses up to one core for a part of each time slice.
func (w *worker) spin() {
	const slice = 50 * time.Millisecond
	for {
		share := time.Duration(min(w.burn.Load(), 1000)) * slice / 1000
		if share <= 0 {
			<-w.changed
			continue
		}
		begin := time.Now()
		for time.Since(begin) < share {
		}
		time.Sleep(slice - share)
	}
}

// obey polls the files in the control directory and applies changed contents.
func (w *worker) obey(directory string) {
	last := map[string]string{}
	for range time.Tick(100 * time.Millisecond) {
		for _, key := range []string{"burn", "health"} {
			text, err := os.ReadFile(filepath.Join(directory, key))
			value := strings.TrimSpace(string(text))
			if err != nil || value == last[key] {
				continue
			}
			last[key] = value
			if err := w.set(key, value); err != nil {
				fmt.Fprintln(os.Stderr, "worker:", err)
			}
		}
	}
}

// state is a worker's view of its container.
type state struct {
	Hostname    string            `json:"hostname"`
	Args        []string          `json:"args"`
	Environment []string          `json:"environment"`
	UID         int               `json:"uid"`
	GID         int               `json:"gid"`
	Directory   string            `json:"directory"`
	Addresses   []string          `json:"addresses"`
	Mounts      map[string]string `json:"mounts"`
	Files       map[string]string `json:"files"`
	Limits      []string          `json:"limits"`
	Cgroups     map[string]string `json:"cgroups"`
	Sysctls     map[string]string `json:"sysctls"`
	Init        string            `json:"init"`
}

// eat allocates and writes memory.
func (w *worker) eat() {
	for range 512 {
		block := make([]byte, 1<<20)
		for n := range block {
			block[n] = byte(n)
		}
		w.eaten = append(w.eaten, block)
	}
}

// see returns the worker's state: addresses without the loopback interface, mount options by mount
// point, and the contents of the files in /run/secrets and WORKER_FILES, a list separated by
// colons.
func see() state {
	s := state{
		Args: os.Args, UID: os.Getuid(), GID: os.Getgid(),
		Mounts: map[string]string{}, Files: map[string]string{}, Cgroups: map[string]string{}, Sysctls: map[string]string{},
	}
	s.Hostname, _ = os.Hostname()
	s.Environment = os.Environ()
	slices.Sort(s.Environment)
	s.Directory, _ = os.Getwd()
	addresses, _ := net.InterfaceAddrs()
	for _, address := range addresses {
		if ip, _, err := net.ParseCIDR(address.String()); err == nil && !ip.IsLoopback() {
			s.Addresses = append(s.Addresses, address.String())
		}
	}
	for line := range strings.Lines(read("/proc/self/mountinfo")) {
		if fields := strings.Fields(line); len(fields) > 6 {
			s.Mounts[fields[4]] = fields[5]
		}
	}
	paths, _ := filepath.Glob("/run/secrets/*")
	for _, path := range append(paths, filepath.SplitList(os.Getenv("WORKER_FILES"))...) {
		if text, err := os.ReadFile(path); err == nil {
			s.Files[path] = string(text)
		}
	}
	for line := range strings.Lines(read("/proc/self/limits")) {
		s.Limits = append(s.Limits, strings.Join(strings.Fields(line), " "))
	}
	for _, path := range []string{"net/core/somaxconn", "net/ipv4/ip_unprivileged_port_start"} {
		s.Sysctls[path] = strings.TrimSpace(read("/proc/sys/" + path))
	}
	for _, path := range []string{"cpu/cpu.cfs_quota_us", "memory/memory.limit_in_bytes", "pids/pids.max", "cpu.max", "memory.max", "pids.max"} {
		if text := strings.TrimSpace(read("/sys/fs/cgroup/" + path)); text != "" {
			s.Cgroups[path] = text
		}
	}
	s.Init = strings.TrimSpace(read("/proc/1/comm"))
	return s
}

// read returns the contents of a file, or "" if it cannot be read.
func read(path string) string {
	text, _ := os.ReadFile(path)
	return string(text)
}
