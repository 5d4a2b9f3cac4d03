package azuretest

import (
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"github.com/hpad/hpad/targets/targettest"
)

// IDs and secret that hpad uses.
const (
	Subscription = "5b5b1c4e-0000-4000-8000-000000000001"
	Tenant       = "7e7e2d3f-0000-4000-8000-000000000002"
	Client       = "9c9c3e2a-0000-4000-8000-000000000003"
	Secret       = "it~is.a-secret"
)

// Server is a fake Azure that runs until its test ends. Its methods are safe for concurrent use.
type Server struct {
	// URL is the endpoint of Azure Resource Manager and Microsoft Entra ID.
	URL string
	// CAFile is the path of the server's certificate. SecretFile is the path of the client secret.
	CAFile, SecretFile string
	// Rival simulates an external writer that acts before a given operation.
	Rival targettest.Rival

	server *httptest.Server

	mu    sync.Mutex
	sets  map[string]*Set
	calls map[string]int
	// strays lists the requests for unknown paths.
	strays []string
	tokens map[string]bool
	issued int
	// operations maps the IDs of long-running operations to their state.
	operations map[string]*operation

	refused bool
	hang    chan struct{}
	// throttle is the argument of Throttle; 0 disables throttling.
	throttle time.Duration
	tooMany  int
	bucket   *rate.Limiter
	failures []*Failure
	lies     []*lie
	actions  []string
	page     int
}

type operation struct {
	set     string
	failure string
}

// Failure is an injected error response.
type Failure struct {
	// Operation selects the calls that fail; empty means any. Times is the number of failures; 0
	// means that the operation fails until the function that Fail returned is called.
	Operation string
	Times     int
	// Status, Code, Message and Header describe the response.
	Status        int
	Code, Message string
	Header        map[string]string
	// Late executes the call before it responds. Cut closes the connection without a response.
	Late, Cut bool
}

// lie contains false values for a number of reads of a set.
type lie struct {
	set             string
	reads           int
	capacity, count int
}

// New starts a server that has no scale sets.
func New(t testing.TB) *Server {
	t.Helper()
	s := &Server{
		sets: map[string]*Set{}, calls: map[string]int{}, tokens: map[string]bool{}, operations: map[string]*operation{},
		actions: []string{"*"}, page: 100,
	}
	s.server = httptest.NewUnstartedServer(s)
	s.server.Config.ErrorLog = log.New(io.Discard, "", 0) // tests close connections
	s.server.StartTLS()
	s.URL = s.server.URL
	dir := t.TempDir()
	s.CAFile, s.SecretFile = filepath.Join(dir, "ca.pem"), filepath.Join(dir, "secret")
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.server.Certificate().Raw})
	for path, text := range map[string][]byte{s.CAFile: certificate, s.SecretFile: []byte(Secret + "\n")} {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		s.Hang(false)
		s.server.CloseClientConnections()
		s.server.Close()
		s.mu.Lock()
		defer s.mu.Unlock()
		if len(s.strays) > 0 {
			t.Errorf("requests for unknown paths: %q", s.strays)
		}
	})
	return s
}

// TOML returns the configuration of a fleet with additional keys.
func (s *Server) TOML(fleet, extra string) string {
	return fmt.Sprintf(`[fleets.%s]
kind                       = "azurevmss"
subscription               = %q
endpoint                   = %q
authority_host             = %q
disable_instance_discovery = true
ca_file                    = %q
tenant_id                  = %q
client_id                  = %q
client_secret_file         = %q
%s
`, fleet, Subscription, s.URL, s.URL, s.CAFile, Tenant, Client, s.SecretFile, extra)
}

func (s *Server) locked(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

func keyOf(group, name string) string { return strings.ToLower(group + "/" + name) }

// Add adds a scale set with running machines.
func (s *Server) Add(set Set) {
	s.mu.Lock()
	defer s.mu.Unlock()
	added := &set
	long := time.Now().Add(-time.Hour)
	fail := added.FailAllocation
	added.FailAllocation = ""
	added.settle(long)
	for _, m := range added.Machines {
		m.boot, m.health = long, long
	}
	added.FailAllocation = fail
	added.etag = 1
	s.sets[keyOf(set.Group, set.Name)] = added
}

// Change modifies a target's set as an external writer would.
func (s *Server) Change(target string, change func(set *Set)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	set := s.sets[strings.ToLower(target)]
	if set == nil {
		panic(fmt.Sprintf("azuretest: no scale set %q", target))
	}
	set.settle(time.Now())
	change(set)
	set.etag++
	set.settle(time.Now())
}

// Look returns the result of calling look with a set.
func Look[T any](s *Server, target string, look func(set *Set) T) T {
	s.mu.Lock()
	defer s.mu.Unlock()
	set := s.sets[strings.ToLower(target)]
	if set == nil {
		panic(fmt.Sprintf("azuretest: no scale set %q", target))
	}
	set.settle(time.Now())
	return look(set)
}

// Capacity returns a set's capacity.
func (s *Server) Capacity(target string) int {
	return Look(s, target, func(set *Set) int { return set.Capacity })
}

// Remove removes a set.
func (s *Server) Remove(target string) { s.locked(func() { delete(s.sets, strings.ToLower(target)) }) }

// Calls returns the number of calls of an operation. If operation is empty, it counts all
// operations except token requests.
func (s *Server) Calls(operation string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if operation != "" {
		return s.calls[operation]
	}
	sum := 0
	for name, count := range s.calls {
		if !strings.HasPrefix(name, "token") {
			sum += count
		}
	}
	return sum
}

// Hang makes the server accept calls without responding, until Hang is called with false.
func (s *Server) Hang(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if on && s.hang == nil {
		s.hang = make(chan struct{})
	} else if !on && s.hang != nil {
		close(s.hang)
		s.hang = nil
	}
}

// Throttle rejects all calls with a Retry-After header in whole seconds, or without the header if
// wait is negative. 0 stops throttling.
func (s *Server) Throttle(wait time.Duration) { s.locked(func() { s.throttle = wait }) }

// Spend limits all calls with a token bucket of 25 calls per second, as in Resource Manager. The
// bucket remains empty for a duration as if another client had used up the quota.
func (s *Server) Spend(d time.Duration) {
	const perSecond = 25
	bucket := rate.NewLimiter(perSecond, 10*perSecond)
	bucket.ReserveN(time.Now(), bucket.Burst())
	for range int(d.Seconds()) {
		bucket.ReserveN(time.Now(), perSecond)
	}
	s.locked(func() { s.bucket = bucket })
}

// Refused returns the number of calls rejected by throttling.
func (s *Server) Refused() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tooMany
}

// Refuse revokes the client's secret and its tokens if on is set, and otherwise restores the
// secret.
func (s *Server) Refuse(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused = on
	if on {
		clear(s.tokens)
	}
}

// Fail injects a failure. The returned function removes it.
func (s *Server) Fail(f Failure) (end func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	failing := &f
	if f.Times == 0 {
		failing.Times = -1
	}
	s.failures = append(s.failures, failing)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.failures = slices.DeleteFunc(s.failures, func(each *Failure) bool { return each == failing })
	}
}

// Lie makes a number of reads of a set and its machines return the given capacity and number of
// machines instead of the real values. A negative capacity or count keeps the real value.
func (s *Server) Lie(target string, reads, capacity, count int) {
	s.locked(func() {
		s.lies = append(s.lies, &lie{set: strings.ToLower(target), reads: 2 * reads, capacity: capacity, count: count})
	})
}

// Permit sets the client's permissions. A * matches any text.
func (s *Server) Permit(actions ...string) { s.locked(func() { s.actions = actions }) }

// Page sets the number of entries on a page of a list.
func (s *Server) Page(entries int) { s.locked(func() { s.page = entries }) }

// take returns the injected failure for an operation, or nil.
func (s *Server) take(operation string) *Failure {
	for i, f := range s.failures {
		if f.Operation != "" && f.Operation != operation {
			continue
		}
		if f.Times > 0 {
			f.Times--
			if f.Times == 0 {
				s.failures = slices.Delete(s.failures, i, i+1)
			}
		}
		return f
	}
	return nil
}

type apiError struct {
	status        int
	code, message string
	header        map[string]string
}

func (r *apiError) Error() string { return r.code + ": " + r.message }

// tooMany returns the error for a throttled call.
func tooMany(wait time.Duration) *apiError {
	r := &apiError{
		status: http.StatusTooManyRequests, code: "OperationNotAllowed",
		message: "The server rejected the request because too many requests have been received for this subscription.",
		header:  map[string]string{},
	}
	if seconds := int(wait / time.Second); seconds > 0 {
		r.header["Retry-After"] = fmt.Sprint(seconds)
	}
	return r
}
