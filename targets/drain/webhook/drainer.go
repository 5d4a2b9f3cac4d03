// Package webhook drains instances by asking an HTTP server of the operator's.
//
// Each call is a POST of a JSON object (see [Request]). An answer of 200 or 204 says
// that it is done, 202 that it is accepted: of the action "drained" that there is
// work left. Any other answer is an error, and the call is made again later.
package webhook

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/common/config"

	"github.com/hpad/hpad/targets/drain"
)

// Action is what a call asks for.
type Action string

// The actions, as of a drain.Drainer.
const (
	Begin   Action = "begin"
	Drained Action = "drained"
	Undo    Action = "undo"
	Finish  Action = "finish"
)

// Request is what is posted.
type Request struct {
	Action Action `json:"action"`
	// Target is "fleet/name".
	Target   string   `json:"target"`
	Instance Instance `json:"instance"`
	// Deadline is when the instance must be drained.
	Deadline time.Time `json:"deadline"`
}

// Instance is whom a call is about.
type Instance struct {
	ID string `json:"id"`
	// Name is its name, or its id; Node is empty where the platform tells none.
	Name      string            `json:"name"`
	Node      string            `json:"node"`
	Addresses []string          `json:"addresses"`
	Labels    map[string]string `json:"labels"`
}

// Drainer is a drain.Drainer. It is safe for concurrent use.
type Drainer struct {
	config Config
	http   *http.Client
}

var _ drain.Drainer = (*Drainer)(nil)

// New answers a drainer, which connects when it is first called. The configuration
// is defaulted and valid. An error names a file that cannot be used.
func New(c Config) (*Drainer, error) {
	client, err := config.NewClientFromConfig(c.httpConfig(), "drain")
	if err != nil {
		return nil, fmt.Errorf("prepare calls of the drain webhook: %w", err)
	}
	return &Drainer{config: c, http: client}, nil
}

// Close gives up the connections nobody uses.
func (d *Drainer) Close() error {
	d.http.CloseIdleConnections()
	return nil
}

// Begin posts the action "begin".
func (d *Drainer) Begin(ctx context.Context, instance drain.Instance) error {
	_, err := d.post(ctx, Begin, instance)
	return err
}

// Drained posts the action "drained".
func (d *Drainer) Drained(ctx context.Context, instance drain.Instance) (bool, error) {
	return d.post(ctx, Drained, instance)
}

// Undo posts the action "undo".
func (d *Drainer) Undo(ctx context.Context, instance drain.Instance) error {
	_, err := d.post(ctx, Undo, instance)
	return err
}

// Finish posts the action "finish".
func (d *Drainer) Finish(ctx context.Context, instance drain.Instance) error {
	_, err := d.post(ctx, Finish, instance)
	return err
}

// maxTold is how much of an answer is told in an error.
const maxTold = 300

// post makes one call, and says whether it is done.
func (d *Drainer) post(ctx context.Context, action Action, instance drain.Instance) (done bool, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("ask the drain webhook to %s instance %s: %w", action, instance.ID, err)
		}
	}()
	ctx, cancel := context.WithTimeoutCause(ctx, d.config.Timeout, fmt.Errorf("no answer within the drain's timeout of %v: %w", d.config.Timeout, context.DeadlineExceeded))
	defer cancel()
	body, err := json.Marshal(request(action, instance))
	if err != nil {
		return false, err
	}
	post, err := http.NewRequestWithContext(ctx, http.MethodPost, d.config.URL, bytes.NewReader(body))
	if err != nil {
		return false, err
	}
	post.Header.Set("Content-Type", "application/json")
	answer, err := d.http.Do(post)
	if err != nil {
		return false, err
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxTold))
	switch {
	case answer.StatusCode == http.StatusAccepted:
		return false, nil
	case answer.StatusCode == http.StatusOK || answer.StatusCode == http.StatusNoContent:
		return true, nil
	case err != nil || len(bytes.TrimSpace(text)) == 0:
		return false, fmt.Errorf("it answers %s", answer.Status)
	}
	return false, fmt.Errorf("it answers %s: %s", answer.Status, strings.Join(strings.Fields(strings.ToValidUTF8(string(text), "")), " "))
}

// request answers what is posted; lists and objects are never null.
func request(action Action, instance drain.Instance) Request {
	r := Request{
		Action: action, Target: instance.Target.String(), Deadline: instance.Deadline.UTC(),
		Instance: Instance{ID: instance.ID, Name: instance.Name, Node: instance.Node, Addresses: instance.Addresses, Labels: instance.Labels},
	}
	if r.Instance.Name == "" {
		r.Instance.Name = instance.ID
	}
	if r.Instance.Addresses == nil {
		r.Instance.Addresses = []string{}
	}
	if r.Instance.Labels == nil {
		r.Instance.Labels = map[string]string{}
	}
	return r
}
