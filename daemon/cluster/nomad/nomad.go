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

// Options are how Nomad is reached.
type Options struct {
	// Cluster is the name that all members have in common.
	Cluster string
	// Path is below which all variables are, as "hpad".
	Path string
	// Agent is how the agent is reached, its region and the namespace of the variables.
	// What is left out comes from the environment of the Nomad command line.
	Agent nomad.Config
}

// Coordinator is a [cluster.Coordinator].
type Coordinator struct {
	agent  *nomad.Agent
	config *nomad.Config
	prefix string

	// looking is held by who looks at all members and fleets, and guards seen.
	looking chan struct{}
	seen    map[string]sighting
}

var _ cluster.Coordinator = (*Coordinator)(nil)

// New returns a Coordinator, which connects when it is first asked. The error is of files
// that cannot be used.
func New(options Options) (*Coordinator, error) {
	config := options.Agent
	config.SetDefaults()
	agent, err := nomad.NewAgent(&config)
	if err != nil {
		return nil, err
	}
	return &Coordinator{
		agent: agent, config: &config, prefix: options.Path + "/" + segment(options.Cluster, maxCluster) + "/",
		looking: make(chan struct{}, 1), seen: map[string]sighting{},
	}, nil
}

// Close lets go of connections.
func (c *Coordinator) Close() error {
	c.agent.Close()
	return nil
}

// Nomad allows paths of 128 characters: the prefix's 32, these, and the rest of what
// [Coordinator.page] adds.
const (
	// MaxPath is how long Options.Path may be.
	MaxPath             = 32
	maxCluster, maxName = 24, 36
)

func (c *Coordinator) everybody() string { return c.prefix + "who/" }
func (c *Coordinator) member(name string) string {
	return c.prefix + "who/members/" + segment(name, maxName)
}

func (c *Coordinator) fleet(name string) string {
	return c.prefix + "who/fleets/" + segment(name, maxName)
}

// page is the path of a page of a fleet with n pages.
func (c *Coordinator) page(fleet string, i, n int) string {
	return fmt.Sprintf("%srecords/%s/%d/%d", c.prefix, segment(fleet, maxName), n, i)
}

// segment returns a name as Nomad takes it as a part of a path, of at most so many
// characters.
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

// bounded returns a context for one call, whose answer may be lost.
func (c *Coordinator) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, c.config.Timeout)
}

// asking returns a client and the options of a read.
func (c *Coordinator) asking(ctx context.Context) (*api.Variables, *api.QueryOptions, error) {
	client, token, err := c.agent.Client()
	if err != nil {
		return nil, nil, fmt.Errorf("nomad at %s: %w", c.config.Address, err)
	}
	options := &api.QueryOptions{Region: c.config.Region, Namespace: c.config.Namespace, AuthToken: token}
	return client.Variables(), options.WithContext(ctx), nil
}

// writing returns a client and the options of a write.
func (c *Coordinator) writing(ctx context.Context) (*api.Variables, *api.WriteOptions, error) {
	variables, asked, err := c.asking(ctx)
	if err != nil {
		return nil, nil, err
	}
	options := &api.WriteOptions{Region: asked.Region, Namespace: asked.Namespace, AuthToken: asked.AuthToken}
	return variables, options.WithContext(ctx), nil
}

// read returns a variable, nil where there is none as of an index.
func (c *Coordinator) read(ctx context.Context, path string) (found *api.Variable, index uint64, err error) {
	ctx, cancel := c.bounded(ctx)
	defer cancel()
	variables, options, err := c.asking(ctx)
	if err != nil {
		return nil, 0, err
	}
	found, meta, err := variables.Peek(path, options)
	if err != nil {
		return nil, 0, c.explained(ctx, err)
	}
	return found, meta.LastIndex, nil
}

// readSince is as read, of an answer that is not older than an index: a server that has
// just been replaced as the leader does not know it yet.
func (c *Coordinator) readSince(ctx context.Context, path string, index uint64) (*api.Variable, error) {
	for again := begin(); ; {
		found, as, err := c.read(ctx, path)
		if err != nil || found != nil || as >= index {
			return found, err
		}
		if !again.wait(ctx) {
			return nil, c.explained(ctx, errStale)
		}
	}
}

var errStale = errors.New("the server that answers knows less than another one that answered before")

// conflictError is that a variable is not as it was expected.
type conflictError struct{ found *api.Variable }

func (e *conflictError) Error() string {
	return fmt.Sprintf("variable %q changed meanwhile", e.found.Path)
}

// swap writes a variable that has an index, or that is not there for index 0. The error is
// a *conflictError with what there is otherwise.
func (c *Coordinator) swap(ctx context.Context, path string, index uint64, items api.VariableItems) (*api.Variable, error) {
	ctx, cancel := c.bounded(ctx)
	defer cancel()
	variables, options, err := c.writing(ctx)
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

// remove removes a variable that has an index. The error is a *conflictError with what
// there is otherwise.
func (c *Coordinator) remove(ctx context.Context, path string, index uint64) error {
	ctx, cancel := c.bounded(ctx)
	defer cancel()
	variables, options, err := c.writing(ctx)
	if err != nil {
		return err
	}
	_, err = variables.CheckedDelete(path, index, options)
	if conflict, ok := errors.AsType[api.ErrCASConflict](err); ok {
		return &conflictError{conflict.Conflict}
	}
	return c.explained(ctx, err)
}

// change writes a variable as decide says by what there is, nil for nothing: until that
// asks for nothing to be written, by nil, or it is written. What is found first is known,
// or has to be read if that is nil; an index of 0 in it is that there is no variable. A
// write whose answer is lost is sent again, so that decide may find it carried out. It
// returns the variable as it is then.
func (c *Coordinator) change(ctx context.Context, path string, known *api.Variable, decide func(found *api.Variable) (api.VariableItems, error)) (*api.Variable, error) {
	for again := begin(); ; {
		if known == nil {
			found, _, err := c.read(ctx, path)
			if err != nil && again.after(ctx, err) {
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
				known = nil // it is not there, or somebody locked it, which reading tells
			}
			if again.wait(ctx) {
				continue
			}
		}
		if !again.after(ctx, err) {
			return nil, err
		}
	}
}

// The first call is sent again after the shorter of these times, and later ones after
// twice the last one, up to the longer.
const (
	shortestWait = 20 * time.Millisecond
	longestWait  = 500 * time.Millisecond
)

// repetition is a call that is made again.
type repetition struct{ next time.Duration }

func begin() *repetition { return &repetition{shortestWait} }

// wait waits before the next time; false where there is none.
func (r *repetition) wait(ctx context.Context) bool {
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

// after is wait where a later call may succeed.
func (r *repetition) after(ctx context.Context, err error) bool {
	var answer api.UnexpectedResponseError
	if errors.As(err, &answer) && answer.HasStatusCode() && answer.StatusCode() < http.StatusInternalServerError && answer.StatusCode() != http.StatusTooManyRequests {
		return false
	}
	return r.wait(ctx)
}

// explained names the agent, and the remedy where it is known.
func (c *Coordinator) explained(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	remedy, text := "", err.Error()
	var answer api.UnexpectedResponseError
	answered := errors.As(err, &answer) && answer.HasStatusCode()
	switch {
	case answered && (answer.StatusCode() == http.StatusForbidden || answer.StatusCode() == http.StatusUnauthorized):
		remedy = fmt.Sprintf("; ha.nomad.token_file needs a token that may list, read, write and destroy variables below %q in namespace %q", c.prefix, c.config.Namespace)
	case strings.Contains(text, "No cluster leader"), strings.Contains(text, "No path to region"):
		remedy = ": are most of its servers up, and reached from there?"
	case !answered && ctx.Err() != nil:
		remedy = ": no answer in time"
	}
	return fmt.Errorf("nomad at %s: %w%s", c.config.Address, err, remedy)
}

// Every variable has one text that is JSON, but for pages.
const content = "content"

// itemsOf returns a value as the items of a variable; those of this package always can be.
func itemsOf(value any) api.VariableItems {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return api.VariableItems{content: string(text)}
}

// valueOf reads what itemsOf made.
func valueOf(v *api.Variable, value any) error {
	if err := json.Unmarshal([]byte(v.Items[content]), value); err != nil {
		return fmt.Errorf("the variable %q of Nomad is not hpad's: %w", v.Path, err)
	}
	return nil
}
