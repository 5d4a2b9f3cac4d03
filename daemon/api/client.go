package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"

	"github.com/hpad/hpad/policy"
)

const (
	// maxResponse is the maximum size of a JSON response in bytes. A list of 100,000 autoscalers
	// is smaller.
	maxResponse = 1 << 30
	// dialTimeout is the time limit for a connection attempt.
	dialTimeout = 5 * time.Second
	// responseTimeout is the time limit for a write and for a check of the history or of a reload. It
	// is longer than the server's own limit.
	responseTimeout = writeTimeout + 15*time.Second
	// readResponseTimeout is the time limit for any other read, so that a command does not wait long
	// for a daemon that does not respond.
	readResponseTimeout = 15 * time.Second
	// If the server rejects a call with 429, the client retries it at most maxRetries times. It
	// does not retry the call if the server requests a wait of more than maxWait.
	maxRetries = 3
	maxWait    = 10 * time.Second
)

// errNoResponse is the cause of a call's cancellation after its time limit.
var errNoResponse = errors.New("connected, but received no complete response")

// Client calls a daemon over its unix socket or over TCP. It is safe for concurrent use and does
// not keep connections open between calls. [Get] and [Post] perform any call; its methods perform calls
// that need more than one request or have no envelope. All return a [ReachError] if the daemon cannot be
// reached, and an [Error] if the daemon returns an error.
type Client struct {
	// address is the daemon's address in error messages. base is the prefix of all paths.
	address, base string
	// username is the user name for basic authentication. It may be empty.
	username string
	http     *http.Client
	// unreachable converts the error of a failed request to a ReachError.
	unreachable func(error) error
	// member is the name of the cluster member that sends the requests, or empty for other
	// clients.
	member string
	// warn is called for each warning in a response. If it is nil, warnings are ignored.
	warn func(text string)
	// clean is applied to each string in a response, unless it is nil.
	clean func(string) string
	// err is returned by every call if the options are invalid, and is nil otherwise.
	err error
}

// NewClient returns a client for the daemon that listens on the socket.
func NewClient(socket string) *Client {
	dialer := &net.Dialer{Timeout: dialTimeout}
	return &Client{
		address:     socket,
		base:        "http://hpad", // the host is only used in the Host header, because every connection goes to the socket
		unreachable: func(err error) error { return unreachableSocket(socket, err) },
		http: &http.Client{
			Transport: &http.Transport{
				DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
					return dialer.DialContext(ctx, "unix", socket)
				},
				DisableKeepAlives: true,
			},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

// For returns a copy of the client for requests from one cluster member to another.
func (c *Client) For(member string) *Client {
	forMember := *c
	forMember.member = member
	return &forMember
}

// Warning returns a copy of the client that calls warn for each warning in a response. For
// example, the server warns if the history of an unreachable cluster member is missing.
func (c *Client) Warning(warn func(text string)) *Client {
	warning := *c
	warning.warn = warn
	return &warning
}

// WithCleaning returns a copy of the client that applies clean to every string in a response, for
// output on a terminal.
func (c *Client) WithCleaning(clean func(string) string) *Client {
	cleaning := *c
	cleaning.clean = clean
	return &cleaning
}

// response is the envelope of a response with its decoded data, which is nil if there is none.
type response[T any] struct {
	Status    string    `json:"status"`
	Data      *T        `json:"data"`
	ErrorType ErrorType `json:"errorType"`
	Error     string    `json:"error"`
	Continue  string    `json:"continue"`
	Warnings  []string  `json:"warnings"`
}

// Path returns the path of the API that consists of the segments, which it escapes.
func Path(segments ...string) string {
	escaped := make([]string, len(segments))
	for i, segment := range segments {
		escaped[i] = url.PathEscape(segment)
	}
	return "/api/v1/" + strings.Join(escaped, "/")
}

// PathOf returns the path of a call for an autoscaler, for a fleet or for all.
func PathOf(scope policy.Scope, call ...string) string {
	switch {
	case scope.Autoscaler != "":
		call = append([]string{"autoscalers", scope.Autoscaler}, call...)
	case scope.Fleet != "":
		call = append([]string{"fleets", scope.Fleet}, call...)
	}
	return Path(call...)
}

// PathReload is the path of the call that reloads the configuration.
const PathReload = "/-/reload"

// Get performs a call and returns the data in the response. query is the struct of the parameters
// or nil.
func Get[T any](ctx context.Context, c *Client, path string, query any) (T, error) {
	data, _, err := exchange[T](ctx, c, http.MethodGet, path+encodeQuery(query), nil)
	return data, err
}

// Post performs an action and returns the data in the response. body is encoded as JSON unless it is
// nil.
func Post[T any](ctx context.Context, c *Client, path string, body any) (data T, err error) {
	var sent []byte
	if body != nil {
		if sent, err = json.Marshal(body); err != nil {
			return data, fmt.Errorf("encode the request: %w", err)
		}
	}
	data, _, err = exchange[T](ctx, c, http.MethodPost, path, sent)
	return data, err
}

// exchange sends a request with an encoded body, which may be nil. It returns the data and the
// continuation token of an incomplete response.
func exchange[T any](ctx context.Context, c *Client, method, path string, sent []byte) (data T, more string, err error) {
	err = c.send(ctx, method, path, sent, timeoutOf(method, path), func(r *http.Response) (err error) {
		data, more, err = decodeResponse[T](c, r)
		return err
	})
	return data, more, err
}

// timeoutOf returns the time limit for a call.
func timeoutOf(method, path string) time.Duration {
	path, _, _ = strings.Cut(path, "?")
	if method != http.MethodGet || strings.HasSuffix(path, "/verify") || strings.HasSuffix(path, "/status/reload") {
		return responseTimeout
	}
	return readResponseTimeout
}

// send sends a request and calls take with the response. sent is the JSON body, or nil for none.
// send retries requests that the server rejects with 429.
func (c *Client) send(ctx context.Context, method, path string, sent []byte, timeout time.Duration, take func(*http.Response) error) error {
	if c.err != nil {
		return c.err
	}
	for retry := 0; ; retry++ {
		wait, err := c.try(ctx, method, path, sent, timeout, take)
		if wait == 0 || wait > maxWait || retry == maxRetries {
			return err
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return err
		}
	}
}

// try sends a request once. The returned wait is 0 unless the server returns 429.
func (c *Client) try(ctx context.Context, method, path string, sent []byte, timeout time.Duration, take func(*http.Response) error) (wait time.Duration, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, errNoResponse)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(sent))
	if err != nil {
		return 0, fmt.Errorf("call hpad at %q: %w", c.address, err)
	}
	if len(sent) > 0 {
		request.Header.Set("Content-Type", "application/json")
	}
	if c.member != "" {
		request.Header.Set(MemberHeader, c.member)
		request.Header.Set(authorHeader, Author(ctx))
	}
	var written atomic.Bool
	trace := &httptrace.ClientTrace{WroteHeaders: func() { written.Store(true) }}
	r, err := c.http.Do(request.WithContext(httptrace.WithClientTrace(ctx, trace)))
	if err == nil {
		defer func() { _ = r.Body.Close() }()
		if err = take(r); r.StatusCode == http.StatusTooManyRequests {
			seconds, _ := strconv.ParseUint(r.Header.Get("Retry-After"), 10, 16)
			wait = time.Duration(seconds) * time.Second
		}
	} else if !errors.Is(context.Cause(ctx), errNoResponse) {
		err = c.unreachable(err)
		if failed, is := errors.AsType[*ReachError](err); is {
			failed.Unsent = !written.Load()
		}
		return 0, err
	}
	if err != nil && errors.Is(context.Cause(ctx), errNoResponse) {
		return 0, &ReachError{
			Address: c.address, Err: fmt.Errorf("%w within %s", errNoResponse, timeout), Hint: "check hpad's log, and check that hpad is the process that listens on this address",
		}
	}
	return wait, err
}

// decodeResponse returns the data and the continuation token in a response, or the error that the
// response contains.
func decodeResponse[T any](c *Client, r *http.Response) (data T, more string, err error) {
	body, err := c.readBody(r)
	if err != nil {
		return data, "", err
	}
	var decoded response[T]
	if err := c.decode(r, body, &decoded); err != nil {
		return data, "", err
	}
	switch {
	case decoded.Status == statusError:
		return data, "", &Error{Status: r.StatusCode, Type: decoded.ErrorType, Message: decoded.Error, moving: r.Header.Get(movingHeader) != ""}
	case decoded.Status != statusSuccess:
		return data, "", c.unexpected(r, fmt.Errorf("its status is %q", decoded.Status))
	case decoded.Data == nil:
		return data, "", c.unexpected(r, errors.New("it has no data"))
	}
	if c.warn != nil {
		for _, text := range decoded.Warnings {
			c.warn(text)
		}
	}
	return *decoded.Data, decoded.Continue, nil
}

// readBody returns the body of a response, or an error if the response does not come from hpad.
func (c *Client) readBody(r *http.Response) ([]byte, error) {
	if r.StatusCode == http.StatusUnauthorized {
		message := fmt.Sprintf("hpad at %q requires a user name and a password", c.address)
		if c.username != "" {
			message = fmt.Sprintf("hpad at %q rejected the user name %q or the password", c.address, c.username)
		}
		return nil, &Error{Status: r.StatusCode, Type: ErrorUnauthorized, Message: message}
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxResponse))
	if err != nil {
		return nil, fmt.Errorf("read the response to %s %s from %q: %w", r.Request.Method, r.Request.URL.Path, c.address, err)
	}
	if r.StatusCode == http.StatusBadRequest && bytes.Contains(body, []byte("HTTP request to an HTTPS server")) {
		return nil, &ReachError{Address: c.address, Err: errors.New("the server requires TLS"), Hint: "write https:// instead of http://"}
	}
	if bytes.HasPrefix(bytes.TrimSpace(body), []byte("{")) {
		return body, nil
	}
	if r.StatusCode == http.StatusInternalServerError {
		return nil, &ReachError{Address: c.address, Err: errors.New("the server cannot authenticate clients"), Hint: webConfigHint}
	}
	const maxShown = 80
	shown := strings.Join(strings.Fields(strings.ToValidUTF8(string(body[:min(len(body), 4*maxShown)]), "")), " ")
	switch {
	case shown == "":
		shown = "an empty body"
	case len(shown) > maxShown:
		shown = strconv.Quote(strings.ToValidUTF8(shown[:maxShown], "")) + "…"
	default:
		shown = strconv.Quote(shown)
	}
	return nil, &ReachError{
		Address: c.address, Err: fmt.Errorf("the server there is not hpad: it returned %d %s with %s", r.StatusCode, http.StatusText(r.StatusCode), shown),
		Hint: "use the address of hpad itself, including the path if it is behind a proxy",
	}
}

func (c *Client) decode(r *http.Response, body []byte, to any) error {
	if c.clean != nil {
		body = cleaned(body, c.clean)
	}
	// WithCleaning may produce equal keys in an object.
	err := jsonv2.Unmarshal(body, to, jsonv1.FormatDurationAsNano(true), jsontext.AllowDuplicateNames(true))
	if failed, ok := errors.AsType[*jsonv2.SemanticError](err); ok { // the library's error text differs between builds
		err = fmt.Errorf("cannot decode a %s at %q", failed.JSONKind, failed.JSONPointer)
	}
	if err != nil {
		return c.unexpected(r, err)
	}
	return nil
}

// unexpected returns the error for a response that this version of hpad cannot decode.
func (c *Client) unexpected(r *http.Response, err error) error {
	return fmt.Errorf("the response to %s %s from %q (HTTP %d) is not from this version of hpad: %w",
		r.Request.Method, r.Request.URL.Path, c.address, r.StatusCode, err)
}

// cleaned applies clean to the strings in a JSON text. It does not report invalid JSON, because
// the decoder does.
func cleaned(text []byte, clean func(string) string) []byte {
	var out bytes.Buffer
	from, to := jsontext.NewDecoder(bytes.NewReader(text), jsontext.AllowDuplicateNames(true)), jsontext.NewEncoder(&out, jsontext.AllowDuplicateNames(true))
	for {
		token, err := from.ReadToken()
		if errors.Is(err, io.EOF) {
			return out.Bytes()
		}
		if err == nil && token.Kind() == '"' {
			token = jsontext.String(clean(token.String()))
		}
		if err != nil || to.WriteToken(token) != nil {
			return text[:0]
		}
	}
}
