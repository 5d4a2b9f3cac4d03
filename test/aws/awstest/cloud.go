package awstest

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"github.com/hpad/hpad/targets/targettest"
)

const (
	// Region is the only region that the server simulates.
	Region = "eu-central-1"
	// Account is the ID of the only account.
	Account = "123456789012"
	// Secret belongs to all access keys.
	Secret = "imitated"
	// firstKey is the initial access key.
	firstKey = "AKIAIMITATED00000001"
)

// launchRetry is the delay after a failed launch.
const launchRetry = 200 * time.Millisecond

// Cloud simulates one account in one region. Its methods are safe for concurrent use.
type Cloud struct {
	// URL is the endpoint of all services.
	URL string
	// Rival simulates an external writer that acts before a call with a given action.
	Rival  targettest.Rival
	server *httptest.Server

	mu     sync.Mutex
	groups map[string]*Group
	// names lists the names of the groups, sorted.
	names []string
	// groupOf maps instance IDs to groups.
	groupOf   map[string]*Group
	launched  int
	page      int
	key       string
	expired   bool
	denied    map[denial]bool
	faults    []*Fault
	bucket    *rate.Limiter
	ec2Bucket *rate.Limiter
	hang      chan struct{}
	calls     map[string]int
	writes    int
	refused   int
	requests  int
	// unknown lists the request parameters that the server does not support.
	unknown []string
}

type denial struct{ action, group string }

// New starts a server without groups.
func New(t testing.TB) *Cloud {
	t.Helper()
	c := &Cloud{
		groups: map[string]*Group{}, groupOf: map[string]*Group{}, denied: map[denial]bool{}, calls: map[string]int{},
		key: firstKey,
	}
	c.server = httptest.NewServer(c)
	c.URL = c.server.URL
	t.Cleanup(func() {
		c.Hang(false)
		c.server.CloseClientConnections()
		c.server.Close()
		for _, parameter := range c.unknown {
			t.Errorf("request with an unknown parameter: %s", parameter)
		}
	})
	return c
}

// Credentials writes a shared credentials file with the valid access key and returns its path.
func (c *Cloud) Credentials(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "credentials")
	c.WriteCredentials(t, path)
	return path
}

// WriteCredentials overwrites a credentials file.
func (c *Cloud) WriteCredentials(t testing.TB, path string) {
	t.Helper()
	c.mu.Lock()
	text := fmt.Sprintf("[default]\naws_access_key_id = %s\naws_secret_access_key = %s\n", c.key, Secret)
	c.mu.Unlock()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Expire makes the access key expire.
func (c *Cloud) Expire() { c.locked(func() { c.expired = true }) }

// Rotate replaces the valid access key.
func (c *Cloud) Rotate() {
	c.locked(func() {
		c.expired = false
		c.key = firstKey[:len(firstKey)-1] + "2"
	})
}

// Deny denies an action for one group, or for all groups if group is empty.
func (c *Cloud) Deny(action, group string) {
	c.locked(func() { c.denied[denial{action, group}] = true })
}

// Permit reverts Deny.
func (c *Cloud) Permit(action, group string) {
	c.locked(func() { delete(c.denied, denial{action, group}) })
}

// Page limits the number of entries per page of a list; 0 means no limit other than the client's.
func (c *Cloud) Page(entries int) { c.locked(func() { c.page = entries }) }

// Throttle limits the calls to Auto Scaling and the calls to EC2, each with its own token bucket.
func (c *Cloud) Throttle(perSecond float64, burst int) {
	c.locked(func() {
		c.bucket, c.ec2Bucket = rate.NewLimiter(rate.Limit(perSecond), burst), rate.NewLimiter(rate.Limit(perSecond), burst)
	})
}

// Spend replaces both token buckets with buckets of 10 calls per second, which remain empty for a
// duration as if another client had used up the quota.
func (c *Cloud) Spend(d time.Duration) {
	spent := func() *rate.Limiter {
		bucket := rate.NewLimiter(10, 20)
		bucket.ReserveN(time.Now(), bucket.Burst())
		for range int(d.Seconds()) {
			bucket.ReserveN(time.Now(), 10)
		}
		return bucket
	}
	c.locked(func() { c.bucket, c.ec2Bucket = spent(), spent() })
}

// Refused returns the number of calls rejected by throttling.
func (c *Cloud) Refused() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.refused
}

// Unthrottle removes both token buckets.
func (c *Cloud) Unthrottle() { c.locked(func() { c.bucket, c.ec2Bucket = nil, nil }) }

// Hang makes the server accept calls without responding, until Hang is called with false.
func (c *Cloud) Hang(on bool) {
	c.locked(func() {
		if on && c.hang == nil {
			c.hang = make(chan struct{})
		} else if !on && c.hang != nil {
			close(c.hang)
			c.hang = nil
		}
	})
}

// Calls returns the number of API calls per action since Calls was last called.
func (c *Cloud) Calls() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	counted := c.calls
	c.calls = map[string]int{}
	return counted
}

// Writes returns the number of successful changes.
func (c *Cloud) Writes() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.writes
}

func (c *Cloud) locked(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
}

// Add adds a group with running instances.
func (c *Cloud) Add(g Group) {
	c.mu.Lock()
	defer c.mu.Unlock()
	added := &g
	if added.Launchable == 0 {
		added.Launchable = -1
	}
	added.Created = time.Now().Truncate(time.Millisecond)
	c.groups[g.Name] = added
	at, _ := slices.BinarySearch(c.names, g.Name)
	c.names = slices.Insert(c.names, at, g.Name)
	for range g.Desired {
		instance := c.launch(added, added.Created)
		instance.State = StateInService
	}
}

// Edit modifies a group as an external writer would.
func (c *Cloud) Edit(name string, change func(g *Group)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.groups[name].changing(time.Now())
	change(c.groups[name])
	c.settle(c.groups[name], time.Now())
}

// Adopt registers the instances that Edit added to a group.
func (c *Cloud) Adopt(name string) {
	c.locked(func() {
		for _, instance := range c.groups[name].Instances {
			if c.groupOf[instance.ID] == nil {
				c.groupOf[instance.ID] = c.groups[name]
			}
		}
	})
}

// Delete removes a group and its instances.
func (c *Cloud) Delete(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, instance := range c.groups[name].Instances {
		delete(c.groupOf, instance.ID)
	}
	delete(c.groups, name)
	c.names = slices.DeleteFunc(c.names, func(n string) bool { return n == name })
}

// Look returns a copy of a group in its current state.
func (c *Cloud) Look(name string) Group {
	c.mu.Lock()
	defer c.mu.Unlock()
	g := c.groups[name]
	c.settle(g, time.Now())
	return g.clone()
}

// ServeHTTP implements the AWS Query protocol.
func (c *Cloud) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	hang := c.hang
	c.mu.Unlock()
	if hang != nil {
		select {
		case <-hang:
		case <-r.Context().Done():
		}
		return
	}
	if err := r.ParseForm(); err != nil || r.Method != http.MethodPost || r.URL.Path != "/" {
		http.Error(w, "not a request of the Query protocol", http.StatusBadRequest)
		return
	}
	c.serve(w, r)
}
