package nomad

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/hpad/hpad/daemon/cluster"
	"github.com/hpad/hpad/targets/nomad"
)

// Options configures the connection to Nomad.
type Options struct {
	// Cluster is the name of the cluster, which all members share.
	Cluster string
	// Path is the first part of all variables' paths, such as "hpad".
	Path string
	// Agent contains the address and region of the agent, and the namespace of the variables.
	// Missing values are taken from the environment variables of the Nomad command line.
	Agent nomad.Config
}

// Coordinator implements [cluster.Coordinator] with Nomad variables.
type Coordinator struct {
	agent  *nomad.Agent
	config *nomad.Config
	prefix string

	// listLock serializes listAll and guards cache.
	listLock chan struct{}
	cache    map[string]cachedVariable
}

var _ cluster.Coordinator = (*Coordinator)(nil)

// New returns a Coordinator that connects at the first call. It returns an error if files in the
// agent's configuration are invalid.
func New(options Options) (*Coordinator, error) {
	config := options.Agent
	config.SetDefaults()
	agent, err := nomad.NewAgent(&config)
	if err != nil {
		return nil, err
	}
	return &Coordinator{
		agent: agent, config: &config, prefix: options.Path + "/" + segment(options.Cluster, maxCluster) + "/",
		listLock: make(chan struct{}, 1), cache: map[string]cachedVariable{},
	}, nil
}

// Close implements [cluster.Coordinator].
func (c *Coordinator) Close() error {
	c.agent.Close()
	return nil
}

// Nomad limits paths to 128 characters. These limits leave enough characters for the fixed parts of
// [Coordinator.page].
const (
	// maxPath is the maximum length of Options.Path.
	maxPath             = 32
	maxCluster, maxName = 24, 36
)

func (c *Coordinator) whoPath() string { return c.prefix + "who/" }
func (c *Coordinator) member(name string) string {
	return c.prefix + "who/members/" + segment(name, maxName)
}

func (c *Coordinator) fleet(name string) string {
	return c.prefix + "who/fleets/" + segment(name, maxName)
}

// page returns the path of page i of a fleet with n pages.
func (c *Coordinator) page(fleet string, i, n int) string {
	return fmt.Sprintf("%srecords/%s/%d/%d", c.prefix, segment(fleet, maxName), n, i)
}

// segment escapes a name for use in a path. The result has at most most characters.
func segment(name string, most int) string {
	var text strings.Builder
	for i := range len(name) {
		switch b := name[i]; {
		case 'a' <= b && b <= 'z', 'A' <= b && b <= 'Z', '0' <= b && b <= '9', b == '-', b == '_':
			text.WriteByte(b)
		default:
			fmt.Fprintf(&text, "~%02x", b)
		}
	}
	if text.Len() <= most {
		return text.String()
	}
	sum := sha256.Sum256([]byte(name))
	const digest = 16
	return text.String()[:most-digest-2] + "~~" + hex.EncodeToString(sum[:digest/2])
}

// bounded returns a context with a time limit for one request, because the response may be lost.
func (c *Coordinator) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, c.config.Timeout)
}

func (c *Coordinator) reader(ctx context.Context) (*api.Variables, *api.QueryOptions, error) {
	client, token, err := c.agent.Client()
	if err != nil {
		return nil, nil, fmt.Errorf("nomad at %s: %w", c.config.Address, err)
	}
	options := &api.QueryOptions{Region: c.config.Region, Namespace: c.config.Namespace, AuthToken: token}
	return client.Variables(), options.WithContext(ctx), nil
}

func (c *Coordinator) writer(ctx context.Context) (*api.Variables, *api.WriteOptions, error) {
	variables, asked, err := c.reader(ctx)
	if err != nil {
		return nil, nil, err
	}
	options := &api.WriteOptions{Region: asked.Region, Namespace: asked.Namespace, AuthToken: asked.AuthToken}
	return variables, options.WithContext(ctx), nil
}

// read returns a variable, or nil if it does not exist, and the index of the response.
func (c *Coordinator) read(ctx context.Context, path string) (found *api.Variable, index uint64, err error) {
	ctx, cancel := c.bounded(ctx)
	defer cancel()
	variables, options, err := c.reader(ctx)
	if err != nil {
		return nil, 0, err
	}
	found, meta, err := variables.Peek(path, options)
	if err != nil {
		return nil, 0, c.explained(ctx, err)
	}
	return found, meta.LastIndex, nil
}

// readSince reads a variable until the response is at least as recent as index. A server that has
// just been replaced as the leader may not have reached that index.
func (c *Coordinator) readSince(ctx context.Context, path string, index uint64) (*api.Variable, error) {
	for again := newRetry(); ; {
		found, as, err := c.read(ctx, path)
		if err != nil || found != nil || as >= index {
			return found, err
		}
		if !again.sleep(ctx) {
			return nil, c.explained(ctx, errStale)
		}
	}
}

var errStale = errors.New("the response is older than an earlier one")

// conflictError is returned if a variable has a different index than expected.
type conflictError struct{ found *api.Variable }

func (e *conflictError) Error() string {
	return fmt.Sprintf("variable %q was changed concurrently", e.found.Path)
}

// swap writes a variable if it has the given index; 0 means that it does not exist. The error is
// a *conflictError if it has a different index.
func (c *Coordinator) swap(ctx context.Context, path string, index uint64, items api.VariableItems) (*api.Variable, error) {
	ctx, cancel := c.bounded(ctx)
	defer cancel()
	variables, options, err := c.writer(ctx)
	if err != nil {
		return nil, err
	}
	written, _, err := variables.CheckedUpdate(&api.Variable{Path: path, ModifyIndex: index, Items: items}, options)
	if conflict, ok := errors.AsType[api.ErrCASConflict](err); ok {
		return nil, &conflictError{conflict.Conflict}
	}
	if err != nil {
		return nil, c.explained(ctx, err)
	}
	written.Items = items
	return written, nil
}

// remove removes a variable if it has the given index. The error is a *conflictError if it has a
// different index.
func (c *Coordinator) remove(ctx context.Context, path string, index uint64) error {
	ctx, cancel := c.bounded(ctx)
	defer cancel()
	variables, options, err := c.writer(ctx)
	if err != nil {
		return err
	}
	_, err = variables.CheckedDelete(path, index, options)
	if conflict, ok := errors.AsType[api.ErrCASConflict](err); ok {
		return &conflictError{conflict.Conflict}
	}
	return c.explained(ctx, err)
}

// change calls decide with the current variable, or with nil if the variable does not exist, and
// writes the items that decide returns. It repeats this until the write succeeds or decide returns
// nil. The argument known is the expected variable. If known is nil, change reads the variable
// first. If its index is 0, change expects that the variable does not exist. If a write gets no
// response, it is repeated, so decide may find that the variable already contains the change.
// change returns the resulting variable.
func (c *Coordinator) change(ctx context.Context, path string, known *api.Variable, decide func(found *api.Variable) (api.VariableItems, error)) (*api.Variable, error) {
	for again := newRetry(); ; {
		if known == nil {
			found, _, err := c.read(ctx, path)
			if err != nil && again.sleepAfter(ctx, err) {
				continue
			} else if err != nil {
				return nil, err
			}
			if known = found; found == nil {
				known = &api.Variable{Path: path}
			}
		}
		found := known
		if found.ModifyIndex == 0 {
			found = nil
		}
		items, err := decide(found)
		if err != nil || items == nil {
			return found, err
		}
		written, err := c.swap(ctx, path, known.ModifyIndex, items)
		if err == nil {
			return written, nil
		}
		if conflict, ok := errors.AsType[*conflictError](err); ok {
			if known = conflict.found; known.ModifyIndex == 0 {
				known = nil // the variable was removed or locked, so read it again
			}
			if again.sleep(ctx) {
				continue
			}
		}
		if !again.sleepAfter(ctx, err) {
			return nil, err
		}
	}
}

// The first retry waits shortestWait. The wait doubles up to longestWait.
const (
	shortestWait = 20 * time.Millisecond
	longestWait  = 500 * time.Millisecond
)

type retry struct{ next time.Duration }

func newRetry() *retry { return &retry{shortestWait} }

// sleep waits before the next attempt. It returns false if ctx ends.
func (r *retry) sleep(ctx context.Context) bool {
	timer := time.NewTimer(r.next)
	defer timer.Stop()
	r.next = min(2*r.next, longestWait)
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// sleepAfter sleeps if a retry may succeed after err. Otherwise it returns false immediately.
func (r *retry) sleepAfter(ctx context.Context, err error) bool {
	var answer api.UnexpectedResponseError
	if errors.As(err, &answer) && answer.HasStatusCode() && answer.StatusCode() < http.StatusInternalServerError && answer.StatusCode() != http.StatusTooManyRequests {
		return false
	}
	return r.sleep(ctx)
}

// explained adds the address to an error, and a remedy if the cause is known.
func (c *Coordinator) explained(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	remedy, text := "", err.Error()
	var answer api.UnexpectedResponseError
	answered := errors.As(err, &answer) && answer.HasStatusCode()
	switch {
	case answered && (answer.StatusCode() == http.StatusForbidden || answer.StatusCode() == http.StatusUnauthorized):
		remedy = fmt.Sprintf("; ha.nomad.token_file needs a token with the capabilities list, read, write and destroy for variables below %q in namespace %q", c.prefix, c.config.Namespace)
	case strings.Contains(text, "No cluster leader"), strings.Contains(text, "No path to region"):
		remedy = ": check that a majority of its servers are running and reachable from there"
	case !answered && ctx.Err() != nil:
		remedy = ": timeout"
	}
	return fmt.Errorf("nomad at %s: %w%s", c.config.Address, err, remedy)
}

// content is the only item of all variables except pages. Its value is JSON.
const content = "content"

func itemsOf(value any) api.VariableItems {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return api.VariableItems{content: string(text)}
}

func valueOf(v *api.Variable, value any) error {
	if err := json.Unmarshal([]byte(v.Items[content]), value); err != nil {
		return fmt.Errorf("decode Nomad variable %q: %w", v.Path, err)
	}
	return nil
}
