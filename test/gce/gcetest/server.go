package gcetest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/time/rate"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/hpad/hpad/targets/targettest"
)

// Server is a fake Compute Engine with one project. Its methods are safe for concurrent use.
type Server struct {
	// Endpoint is the URL that clients must use. Project is the only project.
	Endpoint, Project string
	// Rival simulates an external writer that acts before a given method, identified by its ID
	// without "compute.".
	Rival targettest.Rival

	document *Document
	tokenURL string
	server   *httptest.Server
	// report fails the test.
	report func(format string, arguments ...any)

	// mu guards the fields below. Exported methods and request handlers lock it.
	mu            sync.Mutex
	groups        map[string]*group
	ids           uint64
	machines      int
	quota         int
	operations    map[string]*operation
	requests      map[string]*operation
	unreachable   map[string]bool
	faults        []*fault
	reads, writes *rate.Limiter
	throttled     bool
	refused       int
	forbidden     map[string]bool
	open, expired bool
	tokens        map[string]string
	onlyActing    bool
	issued        int
	calls         map[string]int
	resized       int
}

// Start runs a server until the test ends.
func Start(t testing.TB) *Server {
	t.Helper()
	document, err := Discovery()
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{
		Project: "shop-prod", document: document, report: t.Errorf,
		groups: map[string]*group{}, operations: map[string]*operation{}, requests: map[string]*operation{},
		unreachable: map[string]bool{}, forbidden: map[string]bool{}, tokens: map[string]string{}, calls: map[string]int{},
	}
	s.server = httptest.NewServer(s)
	t.Cleanup(s.close)
	s.Endpoint = s.server.URL + "/compute/v1/"
	s.tokenURL = s.server.URL + "/token"
	return s
}

// close removes all faults, which may block calls, and stops the server.
func (s *Server) close() {
	s.mu.Lock()
	for len(s.faults) > 0 {
		s.drop(s.faults[0])
	}
	s.mu.Unlock()
	s.server.CloseClientConnections()
	s.server.Close()
}

// Open makes the server accept calls that have no credentials.
func (s *Server) Open() { s.locked(func() { s.open = true }) }

// Calls returns the number of accepted calls by method ID without "compute.".
func (s *Server) Calls() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.calls)
}

// ForgetCalls resets the call counters.
func (s *Server) ForgetCalls() { s.locked(func() { clear(s.calls) }) }

// Writes returns the number of size changes.
func (s *Server) Writes() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.resized
}

// ServeHTTP implements the Compute Engine API.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/token" {
		s.giveToken(w, r)
		return
	}
	path, ok := strings.CutPrefix(r.URL.Path, "/compute/v1/")
	method, parameters := s.document.Find(r.Method, path)
	if !ok || method == nil {
		s.report("unknown call %s %s", r.Method, r.URL.Path)
		http.NotFound(w, r)
		return
	}
	c := &call{method: method, parameters: parameters, query: r.URL.Query()}
	if err := c.read(r); err != nil {
		s.report("%s: %v", method.ID, err)
	}
	s.mu.Lock()
	met := s.meet(method.ID)
	s.mu.Unlock()
	if met.apply(w, r) {
		return
	}
	execute, refused := s.execute(c, r)
	if met != nil && met.Lose {
		panic(http.ErrAbortHandler)
	}
	if refused != nil {
		refused.write(w)
		return
	}
	s.write(w, c, execute, met != nil && met.Truncate)
}

type call struct {
	method     *Method
	parameters map[string]string
	query      url.Values
	body       any
}

// read decodes the body of a request.
func (c *call) read(r *http.Request) error {
	text, err := io.ReadAll(r.Body)
	if err != nil || len(bytes.TrimSpace(text)) == 0 {
		return err
	}
	return decode(text, &c.body)
}

// apply applies a fault to a call, and reports whether the call is finished.
func (f *fault) apply(w http.ResponseWriter, r *http.Request) bool {
	if f == nil {
		return false
	}
	if f.Delay > 0 {
		timer := time.NewTimer(f.Delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-r.Context().Done():
		}
	}
	if f.Hang {
		select {
		case <-f.ended:
		case <-r.Context().Done():
		}
	}
	if f.Drop {
		panic(http.ErrAbortHandler)
	}
	if f.Status == 0 {
		return false
	}
	(&apiError{status: f.Status, domain: "global", reason: f.Reason, message: f.Message, after: f.RetryAfter}).write(w)
	return true
}

// execute executes a call. It encodes the response while it holds the lock, before the state can
// change.
func (s *Server) execute(c *call, r *http.Request) ([]byte, *apiError) {
	s.Rival.Meet(strings.TrimPrefix(c.method.ID, "compute."))
	s.mu.Lock()
	defer s.mu.Unlock()
	execute, refused := s.do(c, r)
	if refused != nil {
		return nil, refused
	}
	text, err := protojson.Marshal(execute)
	if err != nil {
		s.report("%s: %v", c.method.ID, err)
	}
	return text, nil
}

func (s *Server) do(c *call, r *http.Request) (proto.Message, *apiError) {
	switch caller := s.caller(r); {
	case caller == "":
		return nil, &apiError{status: http.StatusUnauthorized, domain: "global", reason: "authError", message: "Invalid Credentials"}
	case s.onlyActing && caller != Acting:
		return nil, &apiError{status: http.StatusForbidden, domain: "global", reason: "forbidden", message: "Required 'compute.instanceGroupManagers.list' permission for 'projects/" + s.Project + "'"}
	}
	if refused := s.limited(c); refused != nil {
		return nil, refused
	}
	id := strings.TrimPrefix(c.method.ID, "compute.")
	handler, ok := handlers[id]
	if !ok {
		s.report("%s is not implemented", id)
		return nil, &apiError{status: http.StatusNotImplemented, domain: "global", reason: "notImplemented", message: id + " is not implemented"}
	}
	s.calls[id]++
	if c.parameters["project"] != s.Project {
		return nil, notFound("projects/" + c.parameters["project"])
	}
	if s.forbidden[handler.permission] {
		return nil, &apiError{
			status: http.StatusForbidden, domain: "global", reason: "forbidden",
			message: fmt.Sprintf("Required '%s' permission for '%s'", handler.permission, c.resource()),
		}
	}
	return handler.do(s, c)
}

// resource returns the name of the call's resource, for messages.
func (c *call) resource() string {
	path := c.method.Path
	for name, value := range c.parameters {
		path = strings.Replace(path, "{"+name+"}", value, 1)
	}
	return path
}

// limited returns the error for a throttled call, or nil.
func (s *Server) limited(c *call) *apiError {
	bucket, group, per := s.reads, "Read", "ReadRequestsPerMinutePerProject"
	if c.changes() {
		bucket, group, per = s.writes, "Mutation", "MutationRequestsPerMinutePerProject"
	}
	if !s.throttled && (bucket == nil || bucket.Allow()) {
		return nil
	}
	s.refused++
	return &apiError{
		status: http.StatusForbidden, domain: "usageLimits", reason: "rateLimitExceeded",
		message: fmt.Sprintf("Quota exceeded for quota metric '%s requests' and limit '%s' of service 'compute.googleapis.com' for consumer 'project_number:123'.", group, per),
	}
}

// changes reports whether a call is a write. Some reads use POST.
func (c *call) changes() bool {
	verb := c.method.ID[strings.LastIndex(c.method.ID, ".")+1:]
	return c.method.Verb != http.MethodGet && verb != "listManagedInstances" && verb != "wait"
}

// write sends the requested fields of a response.
func (s *Server) write(w http.ResponseWriter, c *call, text []byte, half bool) {
	if wanted := c.query.Get("fields"); wanted != "" {
		var value any
		err := decode(text, &value)
		selected, parseErr := parseFields(wanted)
		if err = errors.Join(err, parseErr); err == nil {
			text, err = json.Marshal(selected.from(value))
		}
		if err != nil {
			s.report("%s: %v", c.method.ID, err)
		}
	}
	w.Header().Set("Content-Type", "application/json; charset=UTF-8")
	if half {
		w.Header().Set("Content-Length", strconv.Itoa(len(text)))
		_, _ = w.Write(text[:len(text)/2])
		panic(http.ErrAbortHandler)
	}
	_, _ = w.Write(text)
}

func decode(text []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	return decoder.Decode(into)
}

func writeJSON(w http.ResponseWriter, status int, value any) {
	w.Header().Set("Content-Type", "application/json; charset=UTF-8")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(value)
}

func decimal(id uint64) string { return strconv.FormatUint(id, 10) }
