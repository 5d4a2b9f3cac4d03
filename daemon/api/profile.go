package api

import (
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"runtime"
	"runtime/pprof"
	"runtime/trace"
	"strconv"
	"strings"
	"sync"
	"time"
)

// MaxProfileSeconds is how long a profile may be taken.
const MaxProfileSeconds = 120

// ProfileKind is a kind of profile of the daemon itself.
type ProfileKind struct {
	// Name is as Go's own tools have it in URLs.
	Name string
	// Seconds is for how long it is taken unless something is said, 0 for one of an
	// instant.
	Seconds int
	// take writes it; ctx ends when its time is over, or the client has gone.
	take func(ctx context.Context, w io.Writer) error
}

// ProfileKinds are the kinds of profiles, in the order of their names.
var ProfileKinds = []ProfileKind{
	{Name: "allocs", take: snapshotOf("allocs")},
	{Name: "block", Seconds: 10, take: func(ctx context.Context, w io.Writer) error {
		runtime.SetBlockProfileRate(int(blockRate.Nanoseconds()))
		<-ctx.Done()
		runtime.SetBlockProfileRate(0)
		return pprof.Lookup("block").WriteTo(w, 0)
	}},
	{Name: "goroutine", take: snapshotOf("goroutine")},
	{Name: "heap", take: snapshotOf("heap")},
	{Name: "mutex", Seconds: 10, take: func(ctx context.Context, w io.Writer) error {
		runtime.SetMutexProfileFraction(mutexFraction)
		<-ctx.Done()
		runtime.SetMutexProfileFraction(0)
		return pprof.Lookup("mutex").WriteTo(w, 0)
	}},
	{Name: "profile", Seconds: 30, take: func(ctx context.Context, w io.Writer) error {
		if err := pprof.StartCPUProfile(w); err != nil {
			return err
		}
		<-ctx.Done()
		pprof.StopCPUProfile()
		return nil
	}},
	{Name: "trace", Seconds: 5, take: func(ctx context.Context, w io.Writer) error {
		if err := trace.Start(w); err != nil {
			return err
		}
		<-ctx.Done()
		trace.Stop()
		return nil
	}},
}

// What block and mutex record, low enough for a busy daemon: of waits one for each so
// much time, and of contended locks one of so many.
const (
	blockRate     = 10 * time.Microsecond
	mutexFraction = 10
)

func snapshotOf(name string) func(context.Context, io.Writer) error {
	return func(_ context.Context, w io.Writer) error { return pprof.Lookup(name).WriteTo(w, 0) }
}

// profiling is of the whole process: one profile is taken at a time.
var profiling struct {
	mu    sync.Mutex
	until time.Time // when the one under way ends; zero when none is
}

// beginProfile begins a profile of that length, and returns 0; where another is under
// way, for how long that may go on.
func beginProfile(length time.Duration) (wait time.Duration) {
	profiling.mu.Lock()
	defer profiling.mu.Unlock()
	now := time.Now()
	if !profiling.until.IsZero() {
		return max(profiling.until.Sub(now), time.Second)
	}
	profiling.until = now.Add(length)
	return 0
}

func endProfile() {
	profiling.mu.Lock()
	defer profiling.mu.Unlock()
	profiling.until = time.Time{}
}

// profile writes a profile of the process. It takes its seconds, whatever limits
// there are on other responses, and ends early when the client goes away.
func profile(w http.ResponseWriter, r *http.Request) {
	kind, err := findProfile(r.PathValue("name"))
	if err != nil {
		writeError(w, http.StatusNotFound, ErrorNotFound, err.Error())
		return
	}
	seconds, err := profileSeconds(kind, r.URL.Query().Get("seconds"))
	if err != nil {
		writeError(w, http.StatusBadRequest, ErrorBadData, err.Error())
		return
	}
	length := time.Duration(seconds) * time.Second
	if wait := beginProfile(length); wait > 0 {
		left := strconv.Itoa(int(math.Ceil(wait.Seconds())))
		w.Header().Set("Retry-After", left)
		writeError(w, http.StatusTooManyRequests, ErrorTooMany, "another profile is being taken, and there is one at a time: try again in "+left+" s")
		return
	}
	defer endProfile()
	deadlines := http.NewResponseController(w) // a writer without deadlines needs none moved
	_ = deadlines.SetReadDeadline(time.Time{})
	_ = deadlines.SetWriteDeadline(time.Now().Add(length + writeTimeout))
	ctx, cancel := context.WithTimeout(r.Context(), length)
	defer cancel()
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Disposition", `attachment; filename="`+kind.Name+`"`)
	written := &countingWriter{Writer: w}
	if err := kind.take(ctx, written); err != nil && written.size == 0 {
		w.Header().Del("Content-Disposition")
		writeError(w, http.StatusInternalServerError, ErrorInternal, err.Error())
	}
}

// countingWriter counts the bytes that were written.
type countingWriter struct {
	io.Writer
	size int
}

func (c *countingWriter) Write(part []byte) (int, error) {
	n, err := c.Writer.Write(part)
	c.size += n
	return n, err
}

func findProfile(name string) (ProfileKind, error) {
	var names []string
	for _, kind := range ProfileKinds {
		if kind.Name == name {
			return kind, nil
		}
		names = append(names, kind.Name)
	}
	return ProfileKind{}, fmt.Errorf("no profile named %q: there are %s", name, strings.Join(names, ", "))
}

// profileSeconds returns for how long a profile is to be taken.
func profileSeconds(kind ProfileKind, text string) (int, error) {
	if text == "" || kind.Seconds == 0 {
		return kind.Seconds, nil
	}
	seconds, err := strconv.Atoi(text)
	if err != nil || seconds < 1 || seconds > MaxProfileSeconds {
		return 0, fmt.Errorf("seconds = %q: must be from 1 to %d", text, MaxProfileSeconds)
	}
	return seconds, nil
}

// identified refuses clients who may not write, and other sites: what it serves, a
// profile or what else is said of it, is read, but neither for everybody nor for nothing.
func identified(access Access, what string, handler http.HandlerFunc) http.HandlerFunc {
	sameOrigin := http.NewCrossOriginProtection()
	return func(w http.ResponseWriter, r *http.Request) {
		asWrite := r.WithContext(r.Context())
		asWrite.Method = http.MethodPost
		if sameOrigin.Check(asWrite) != nil {
			writeError(w, http.StatusForbidden, ErrorForbidden, "cross-origin requests for "+what+" are refused")
			return
		}
		if _, err := access(r); err != nil {
			writeError(w, http.StatusForbidden, ErrorForbidden, r.URL.Path+" is "+what+", "+err.Error())
			return
		}
		handler(w, r)
	}
}

// Profile has the daemon take a profile of itself, of an instant or for so many
// seconds, and writes it as it comes.
func (c *Client) Profile(ctx context.Context, name string, seconds int, to io.Writer) error {
	path := "/debug/pprof/" + name
	if seconds > 0 {
		path += "?seconds=" + strconv.Itoa(seconds)
	}
	return c.fetch(ctx, path, answerTimeout+time.Duration(seconds)*time.Second, to)
}

// fetch writes an answer that is no JSON, as it comes.
func (c *Client) fetch(ctx context.Context, path string, timeout time.Duration, to io.Writer) error {
	return c.ask(ctx, http.MethodGet, path, nil, timeout, func(response *http.Response) error {
		if response.StatusCode == http.StatusOK {
			_, err := io.Copy(to, response.Body)
			return err
		}
		body, err := io.ReadAll(response.Body)
		if err != nil {
			return err
		}
		return c.open(response.StatusCode, http.MethodGet, path, body, nil)
	})
}
