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
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/go-json-experiment/json/jsontext"
)

// maxAnswer bounds a response, in bytes: a hundred thousand autoscalers take less.
const maxAnswer = 1 << 30

// dialTimeout bounds how long a connection to the socket may take.
const dialTimeout = 5 * time.Second

// answerTimeout bounds a whole call: no hpad takes longer for a response, but for one
// that is to take its time.
const answerTimeout = writeTimeout + 15*time.Second

// errUnanswered is what a call ends with that takes longer.
var errUnanswered = errors.New("the connection was taken, and there was no answer")

// Client asks a daemon over its unix socket or over TCP. It is safe for
// concurrent use and holds no connection between calls. Its errors are a
// [ReachError] when the daemon cannot be reached and an [Error] when it responds
// with one.
type Client struct {
	// address is where the daemon is, for errors; base is what paths are
	// appended to.
	address, base string
	// username is whom the client says it is; empty when it says nothing.
	username string
	http     *http.Client
	// unreachable turns the failure of a request into a ReachError.
	unreachable func(error) error
	// member is the member of a cluster that asks, "" for anybody else.
	member string
	// warn is called with each warning of an answer; nil for nothing.
	warn func(text string)
	// clean is applied to each string of a response; nil for no change.
	clean func(string) string
	// err is what is wrong with what the client was made of; nil when nothing is.
	err error
}

// NewClient returns a client of the daemon that listens on the socket.
func NewClient(socket string) *Client {
	dialer := &net.Dialer{Timeout: dialTimeout}
	return &Client{
		address: socket,
		// The host only fills the header: the socket is what is dialed.
		base:        "http://hpad",
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

// Autoscaler returns one; an error that is ErrNotFound means that there is none
// of that name.
func (c *Client) Autoscaler(ctx context.Context, name string) (Autoscaler, error) {
	return call[Autoscaler](ctx, c, http.MethodGet, "/api/v1/autoscalers/"+url.PathEscape(name), nil)
}

// Instances returns the instances of one autoscaler's target as they are now; an error
// that is ErrNotFound means that there is no autoscaler of that name.
func (c *Client) Instances(ctx context.Context, name string) (InstanceList, error) {
	return call[InstanceList](ctx, c, http.MethodGet, "/api/v1/autoscalers/"+url.PathEscape(name)+"/instances", nil)
}

// Explain returns one autoscaler's last decision; an error that is ErrNotFound
// means that there is none of that name.
func (c *Client) Explain(ctx context.Context, name string) (Explanation, error) {
	return call[Explanation](ctx, c, http.MethodGet, "/api/v1/autoscalers/"+url.PathEscape(name)+"/explain", nil)
}

// Discovered returns the targets that fleets found by their labels, in order.
func (c *Client) Discovered(ctx context.Context) ([]Discovered, error) {
	return call[[]Discovered](ctx, c, http.MethodGet, "/api/v1/discovery", nil)
}

// Reload makes the daemon read its configuration again, and returns what is different. An
// error leaves the old configuration in force.
func (c *Client) Reload(ctx context.Context) (ReloadChanges, error) {
	return call[ReloadChanges](ctx, c, http.MethodPost, "/-/reload", nil)
}

// ReloadChanges returns what a reload would change, in the order of keys. An [Error] of
// the type ErrorReload is what would refuse it.
func (c *Client) ReloadChanges(ctx context.Context) (ReloadChanges, error) {
	return call[ReloadChanges](ctx, c, http.MethodGet, "/api/v1/status/reload", nil)
}

// How often a call is made again that was one too many, and how long it waits for
// that at most.
const (
	maxRetries = 3
	maxWait    = 10 * time.Second
)

// call calls a path, with a body in JSON unless body is nil, and returns the data of the response.
func call[T any](ctx context.Context, c *Client, method, path string, body any) (data T, err error) {
	var sent []byte
	if body != nil {
		if sent, err = json.Marshal(body); err != nil {
			return data, fmt.Errorf("encode what is asked of hpad: %w", err)
		}
	}
	err = c.exchange(ctx, method, path, sent, &data)
	return data, err
}

// exchange is call with an encoded body; nil for none.
func (c *Client) exchange(ctx context.Context, method, path string, sent []byte, data any) error {
	return c.ask(ctx, method, path, sent, answerTimeout, func(response *http.Response) error {
		body, err := io.ReadAll(response.Body)
		if err != nil {
			return err
		}
		return c.open(response.StatusCode, method, path, body, data)
	})
}

// ask asks for a path, with a body in JSON where sent is not nil, and has the response
// taken, all within a time. It waits when the daemon asks it to, for a while.
func (c *Client) ask(ctx context.Context, method, path string, sent []byte, within time.Duration, take func(*http.Response) error) error {
	for retry := 0; ; retry++ {
		wait, err := c.try(ctx, method, path, sent, within, take)
		if wait == 0 || wait > maxWait || retry == maxRetries {
			return err
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return err
		}
	}
}

// try makes one call. The time to wait is 0 unless the call was one too many. Errors
// of reading the body go before those that take makes of them.
func (c *Client) try(ctx context.Context, method, path string, sent []byte, within time.Duration, take func(*http.Response) error) (time.Duration, error) {
	if c.err != nil {
		return 0, c.err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, within, errUnanswered)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(sent))
	if err != nil {
		return 0, fmt.Errorf("ask hpad at %q: %w", c.address, err)
	}
	if len(sent) > 0 {
		request.Header.Set("Content-Type", "application/json")
	}
	if c.member != "" {
		request.Header.Set(MemberHeader, c.member)
		request.Header.Set(AuthorHeader, Author(ctx))
	}
	response, err := c.http.Do(request)
	if errors.Is(context.Cause(ctx), errUnanswered) {
		return 0, c.unanswered(within)
	}
	if err != nil {
		return 0, c.unreachable(err)
	}
	body := &boundedBody{ReadCloser: response.Body, left: maxAnswer}
	response.Body = body
	defer func() { _ = body.Close() }()
	err = take(response)
	if errors.Is(context.Cause(ctx), errUnanswered) {
		return 0, c.unanswered(within)
	}
	if body.err != nil {
		return 0, fmt.Errorf("read hpad's answer to %s %s at %q: %w", method, path, c.address, body.err)
	}
	wait := time.Duration(0)
	if response.StatusCode == http.StatusTooManyRequests {
		if seconds, err := strconv.ParseUint(response.Header.Get("Retry-After"), 10, 16); err == nil {
			wait = time.Duration(seconds) * time.Second
		}
	}
	return wait, err
}

// boundedBody is the body of a response up to a number of bytes.
type boundedBody struct {
	io.ReadCloser
	left int64
	// err is why it could not be read to its end.
	err error
}

func (b *boundedBody) Read(to []byte) (int, error) {
	n, err := b.ReadCloser.Read(to)
	if b.left -= int64(n); b.left < 0 {
		err = fmt.Errorf("it has more than %d bytes", maxAnswer)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		b.err = err
	}
	return n, err
}

// unanswered is the error of a call that took longer than hpad ever does.
func (c *Client) unanswered(within time.Duration) error {
	return &ReachError{Address: c.address, Err: fmt.Errorf("%w within %s", errUnanswered, within), Hint: "look at hpad's log, and at whether it is hpad that listens there"}
}

// open takes the data out of an envelope.
func (c *Client) open(status int, method, path string, body []byte, data any) error {
	if status == http.StatusUnauthorized {
		message := fmt.Sprintf("hpad at %q wants a name and a password", c.address)
		if c.username != "" {
			message = fmt.Sprintf("hpad at %q knows no user %q with this password", c.address, c.username)
		}
		return &Error{Status: status, Type: ErrorUnauthorized, Message: message}
	}
	if status == http.StatusBadRequest && bytes.Contains(body, []byte("HTTP request to an HTTPS server")) {
		return &ReachError{Address: c.address, Err: errors.New("the server speaks TLS"), Hint: "write https:// instead of http://"}
	}
	if err := c.strange(status, body); err != nil {
		return err
	}
	var answer envelope
	if err := json.Unmarshal(c.cleaned(body), &answer); err != nil {
		return c.garbled(status, method, path, err)
	}
	switch answer.Status {
	case statusError:
		return &Error{Status: status, Type: answer.ErrorType, Message: answer.Error}
	case statusSuccess:
		if c.warn != nil {
			for _, text := range answer.Warnings {
				c.warn(text)
			}
		}
	default:
		return c.garbled(status, method, path, fmt.Errorf("its status is %q", answer.Status))
	}
	if data == nil {
		return nil
	}
	if len(answer.Data) == 0 {
		return c.garbled(status, method, path, errors.New("it has no data"))
	}
	if part, ok := data.(*partOf); ok {
		part.more, data = answer.Continue, part.data
	}
	if err := json.Unmarshal(answer.Data, data); err != nil {
		return c.garbled(status, method, path, err)
	}
	return nil
}

// cleaned applies clean to the strings of a JSON text. Names of members may be equal then. It
// decodes only strings with escapes, or letters beyond ASCII: most have no others.
func (c *Client) cleaned(text []byte) []byte {
	if c.clean == nil {
		return text
	}
	cleaned := make([]byte, 0, len(text))
	for {
		begin := bytes.IndexByte(text, '"')
		if begin < 0 {
			return append(cleaned, text...)
		}
		end, special := begin+1, false
		for ; end < len(text) && text[end] != '"'; end++ {
			special = special || text[end] == '\\' || text[end] >= unicode.MaxASCII
			if text[end] == '\\' {
				end++
			}
		}
		end = min(end+1, len(text))
		cleaned = append(cleaned, text[:begin]...)
		if special {
			// If the text is no JSON, decoding it fails.
			decoded, _ := jsontext.AppendUnquote(nil, text[begin:end])
			cleaned, _ = jsontext.AppendQuote(cleaned, c.clean(string(decoded)))
		} else {
			cleaned = append(cleaned, text[begin:end]...)
		}
		text = text[end:]
	}
}

// maxShownStart bounds what is looked at of a body that is strange, in bytes.
const maxShownStart = 320

// strange returns an error where a body is none that an hpad of any version writes, which
// are objects of JSON.
func (c *Client) strange(status int, body []byte) error {
	const shown = 80
	text := strings.Join(strings.Fields(strings.ToValidUTF8(string(body[:min(len(body), maxShownStart)]), "")), " ")
	switch {
	case strings.HasPrefix(text, "{"):
		return nil
	case text == "":
		text = "nothing"
	case len(text) > shown:
		text = strconv.Quote(strings.ToValidUTF8(text[:shown], "")) + "…"
	default:
		text = strconv.Quote(text)
	}
	return &ReachError{
		Address: c.address, Err: fmt.Errorf("what listens there is no hpad: it answers %d %s with %s", status, http.StatusText(status), text),
		Hint: "name the address of hpad itself, with the path where a proxy has it",
	}
}

// garbled is the error of a response that this hpad cannot read.
func (c *Client) garbled(status int, method, path string, err error) error {
	return fmt.Errorf("the answer to %s %s at %q (HTTP %d) is not that of an hpad of this version: %w",
		method, path, c.address, status, err)
}
