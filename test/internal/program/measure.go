package program

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/hpad/hpad/test/internal/world"
)

// With returns the program for use in a different test. That test must not start or stop it.
func (p *Program) With(t testing.TB) *Program {
	other := *p
	other.t = t
	return &other
}

// Pid returns the process ID.
func (p *Program) Pid() int { return p.process.Command.Process.Pid }

// Ended returns the exit status, or an empty string while the process is running.
func (p *Program) Ended() string {
	if !p.process.Ended() {
		return ""
	}
	return p.process.Command.ProcessState.String()
}

// Signal sends a signal. It ignores a process that has exited.
func (p *Program) Signal(signal syscall.Signal) { _ = p.process.Command.Process.Signal(signal) }

// State returns the state directory.
func (p *Program) State() string { return p.state }

// Said returns the logs of all runs.
func (p *Program) Said() string {
	text, err := os.ReadFile(p.path("log"))
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// Ask sends a request through the socket.
func (p *Program) Ask(method, path string) (status int, body string, err error) {
	ctx, cancel := context.WithTimeout(p.t.Context(), world.Patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, "http://hpad"+path, http.NoBody)
	if err != nil {
		return 0, "", err
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", p.Socket())
	}}}
	response, err := client.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	return response.StatusCode, string(text), err
}

// Metric returns the sum of the series of a metric with the given text in their labels.
func (p *Program) Metric(name, labels string) float64 {
	p.t.Helper()
	_, text, err := p.Ask(http.MethodGet, "/metrics?name[]="+name)
	if err != nil {
		p.t.Fatal(err)
	}
	return sum(text, name, labels)
}

func sum(metrics, name, labels string) (sum float64) {
	for line := range strings.Lines(metrics) {
		if series, value, found := strings.Cut(strings.TrimSpace(line), " "); found && strings.HasPrefix(line, name) && strings.Contains(series, labels) {
			number, _ := strconv.ParseFloat(value, 64)
			sum += number
		}
	}
	return sum
}

// Use is a process's use of resources.
type Use struct {
	Goroutines, Descriptors int
	// Resident is the memory in RAM, and Heap the live part of the heap, both in bytes. Resident also
	// contains garbage, of which there can be a multiple of Heap.
	Resident, Heap int64
}

// Use returns the current use of resources, after a garbage collection.
func (p *Program) Use() (Use, error) {
	var text string
	for _, path := range []string{"/debug/pprof/heap?gc=1", "/metrics?name[]=go_goroutines&name[]=process_open_fds&name[]=process_resident_memory_bytes&name[]=go_memstats_heap_alloc_bytes"} {
		status, body, err := p.Ask(http.MethodGet, path)
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("%s: status %d: %s", path, status, body)
		}
		if err != nil {
			return Use{}, err
		}
		text = body
	}
	return Use{
		Goroutines:  int(sum(text, "go_goroutines", "")),
		Descriptors: int(sum(text, "process_open_fds", "")),
		Resident:    int64(sum(text, "process_resident_memory_bytes", "")),
		Heap:        int64(sum(text, "go_memstats_heap_alloc_bytes", "")),
	}, nil
}
