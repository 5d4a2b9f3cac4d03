// Package webhook drains instances by calling the operator's HTTP server.
//
// Each call is a POST of a JSON object (see [Request]). Status 200 or 204 means that the action
// is complete, and 202 means that it is accepted. For the action "drained", 202 means that work
// remains. Any other status is an error, and the call is repeated later.
package webhook

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"time"

	"github.com/hpad/hpad/settings"
	"github.com/hpad/hpad/settings/httpclient"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/drain"
)

// Request is the body of a call.
type Request struct {
	// Action is "begin", "drained", "undo" or "finish".
	Action string `json:"action"`
	// Target is "fleet/name".
	Target   string   `json:"target"`
	Instance Instance `json:"instance"`
	// Deadline is the end of the drain.
	Deadline time.Time `json:"deadline"`
}

// Instance is the drained instance.
type Instance struct {
	ID string `json:"id"`
	// Name is the instance's name, or its id if it has no name. Node is empty if it is unknown.
	Name      string            `json:"name"`
	Node      string            `json:"node"`
	Addresses []string          `json:"addresses"`
	Labels    map[string]string `json:"labels"`
}

// Drainer is a drain.Drainer. It is safe for concurrent use.
type Drainer struct {
	drain.Func
	config Config
	http   *http.Client
}

// New returns a drainer, which connects on first use. The configuration must be valid and have
// its defaults set. An error names the file that cannot be used.
func New(c Config) (*Drainer, error) {
	client, err := c.NewClient("drain", nil)
	if err != nil {
		return nil, fmt.Errorf("prepare calls of the drain webhook: %w", err)
	}
	d := &Drainer{config: c, http: client}
	d.Func = d.post
	return d, nil
}

// Close closes idle connections.
func (d *Drainer) Close() error {
	d.http.CloseIdleConnections()
	return nil
}

// maxText is the maximum length of the response text in an error, in bytes.
const maxText = 300

func (d *Drainer) post(ctx context.Context, action string, instance drain.Instance) (done bool, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("call the drain webhook with the action %q for instance %s: %w", action, instance.ID, err)
		}
	}()
	ctx, cancel := context.WithTimeoutCause(ctx, d.config.Timeout, fmt.Errorf("no response within the drain timeout of %v: %w", d.config.Timeout, context.DeadlineExceeded))
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
	if err := httpclient.SetHeaderFiles(post.Header, d.config.HeaderFiles); err != nil {
		return false, err
	}
	answer, err := d.http.Do(post)
	if err != nil {
		return false, err
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxText))
	switch {
	case answer.StatusCode == http.StatusAccepted:
		return false, nil
	case answer.StatusCode == http.StatusOK || answer.StatusCode == http.StatusNoContent:
		return true, nil
	case err != nil || len(bytes.TrimSpace(text)) == 0:
		return false, fmt.Errorf("it returned %s", answer.Status)
	}
	return false, fmt.Errorf("it returned %s: %s", answer.Status, strings.Join(strings.Fields(strings.ToValidUTF8(string(text), "")), " "))
}

// request returns the body of a call; lists and objects are never null.
func request(action string, instance drain.Instance) Request {
	r := Request{
		Action: action, Target: instance.Target.String(), Deadline: instance.Deadline.UTC(),
		Instance: Instance{
			ID: instance.ID, Name: cmp.Or(instance.Name, instance.ID), Node: instance.Node,
			Addresses: append([]string{}, instance.Addresses...), Labels: map[string]string{},
		},
	}
	maps.Copy(r.Instance.Labels, instance.Labels)
	return r
}

// Config is the [drain] table of kind "webhook".
type Config struct {
	// URL is the address of the server, http or https, without credentials.
	URL string `toml:"url"`
	// Timeout is the time limit for one call, including the response: up to 50s.
	Timeout time.Duration `toml:"timeout" default:"10s" above:"0s" max:"50s" must:"more than 0, and 50s at most"`
	// Access contains the connection settings. Its Headers must not contain secrets.
	httpclient.Access
	// HeaderFiles maps header names to files that contain their values. The files are read for each
	// call.
	HeaderFiles map[string]string `toml:"header_files"`
}

// SetDefaults sets missing values to their defaults.
func (c *Config) SetDefaults() { settings.SetDefaults(c) }

// Validate returns all errors in the table, with paths relative to it, such as "tls.key_file".
// SetDefaults must be called first.
func (c *Config) Validate() []settings.FieldError {
	var mistakes []settings.FieldError
	if detail := hook.Check(c.URL); detail != "" { // the URL may contain a secret
		mistakes = append(mistakes, settings.FieldError{Field: "url", Detail: detail})
	}
	mistakes = append(mistakes, settings.Validate(c)...)
	mistakes = append(mistakes, c.Access.Validate()...)
	return append(mistakes, httpclient.ValidateHeaders("header_files", c.HeaderFiles)...)
}

var hook = httpclient.Address{
	Form:        `must be a URL, such as "https://drain.example.com/hpad"`,
	Credentials: "basic_auth or token_file",
}

// Kind is the drain kind "webhook".
var Kind = drain.Kind{Name: "webhook", Config: func() drain.Config { return new(Config) }}

// Build builds a drainer from the table.
func (c *Config) Build(targets.Fleet) (drain.Drainer, error) { return New(*c) }
