// Package http implements fleets with a server of the operator as adapter. It sends the messages of
// package adapter over HTTP. docs/fleets-http.md describes them.
package http

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/hpad/hpad/settings"
	"github.com/hpad/hpad/settings/httpclient"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/adapter"
)

// Config is one [fleets.NAME] table of kind "http".
type Config struct {
	// URL is the http or https address of the adapter. hpad adds the name of the call to its path.
	URL string `toml:"url"`
	adapter.Common
	// Access contains the settings of the connection. Only its Headers may contain secrets.
	httpclient.Access
}

// SetDefaults sets missing values to their defaults.
func (c *Config) SetDefaults() { settings.SetDefaults(c) }

// Validate returns all errors of a configuration with defaults applied.
func (c *Config) Validate() []settings.FieldError {
	var errs []settings.FieldError
	if detail := address.Check(c.URL); detail != "" {
		errs = append(errs, settings.FieldError{Field: "url", Value: httpclient.QuoteAddress(c.URL), Detail: detail})
	}
	errs = append(errs, settings.Validate(c)...)
	return append(errs, c.Access.Validate()...)
}

var address = httpclient.Address{
	Form:        `must be the URL of an adapter, such as "http://127.0.0.1:8080/hpad"`,
	Credentials: "basic_auth, token_file or oauth2",
	End:         `must end with the path: no "?" and no "#"`,
}

// Engine returns the address of the adapter.
func (c *Config) Engine() string { return targets.ServiceAddress(c.URL) }

// Build returns a fleet with this configuration, which connects at its first call.
func (c *Config) Build(name string, env targets.Env) (targets.Fleet, error) {
	client, err := c.NewClient("fleet", nil)
	if err != nil {
		return nil, fmt.Errorf("fleet %q: %w", name, err)
	}
	return adapter.NewFleet(name, &c.Common, &transport{config: c, client: client}, env), nil
}

// Kind is the fleet kind "http".
var Kind = adapter.NewKind("http", func() targets.Config { return new(Config) })

// transport sends each request as a POST. It is safe for concurrent use.
type transport struct {
	config *Config
	client *http.Client
}

// Close closes idle connections.
func (t *transport) Close() error {
	t.client.CloseIdleConnections()
	return nil
}

// Call sends a request.
func (t *transport) Call(ctx context.Context, request *adapter.Request) (*adapter.Response, error) {
	ctx, cancel := targets.WithCallTimeout(ctx, t.config.Timeout)
	defer cancel()
	body, err := json.Marshal(request)
	if err != nil {
		return nil, err
	}
	post, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimRight(t.config.URL, "/")+"/"+string(request.Call), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	post.Header.Set("Content-Type", "application/json")
	answer, err := t.client.Do(post)
	if err != nil {
		return nil, adapter.Lost(request, targets.AsTimeout(ctx, err))
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(answer.Body, adapter.MaxResponse+1))
	switch {
	case err != nil:
		err = targets.AsTimeout(ctx, err)
	case answer.StatusCode != http.StatusOK:
		return nil, statusError(request, answer, text)
	case len(text) > adapter.MaxResponse:
		err = fmt.Errorf("the response has more than %d bytes; it begins with %s", adapter.MaxResponse, adapter.Excerpt(text))
	}
	var response *adapter.Response
	if err == nil {
		response, err = adapter.Decode(text)
	}
	if err == nil && response.ID != "" && response.ID != request.ID {
		err = fmt.Errorf("invalid response: the id is %q instead of %q", targets.Phrase(response.ID), request.ID)
	}
	if err != nil {
		return nil, adapter.Lost(request, err)
	}
	return response, nil
}

// statusError returns the error for a response with another status than 200.
func statusError(request *adapter.Request, answer *http.Response, text []byte) error {
	err := errors.New("the status is " + answer.Status)
	if len(text) > 0 {
		err = fmt.Errorf("%w; the response begins with %s", err, adapter.Excerpt(text))
	}
	switch status := answer.StatusCode; {
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return fmt.Errorf("%w: %w", targets.ErrForbidden, err)
	case status == http.StatusTooManyRequests:
		return &targets.ThrottledError{RetryAfter: targets.RetryAfter(answer.Header), Err: err}
	case status < http.StatusInternalServerError:
		return targets.WithClass(targets.ErrTransient, err)
	}
	return adapter.Lost(request, err)
}
