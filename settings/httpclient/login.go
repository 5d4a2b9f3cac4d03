package httpclient

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/prometheus/common/config"
	"golang.org/x/sync/semaphore"

	"github.com/hpad/hpad/settings/secret"
)

// Login gets credentials that expire, such as access tokens.
type Login struct {
	// Purpose is the start of errors, such as "get an access token".
	Purpose string
	// Get gets new credentials. It returns when ctx ends.
	Get func(ctx context.Context) (Credentials, error)
}

// Credentials authorize requests until they expire.
type Credentials struct {
	// Authorize adds the credentials to a request, which it may modify.
	Authorize func(*http.Request) error
	// Expires is zero if the time is unknown.
	Expires time.Time
}

// Bearer returns the credentials for an access token, and keeps the token as a secret.
func Bearer(token string, expires time.Time) Credentials {
	secret.Keep(token)
	return Credentials{Expires: expires, Authorize: func(r *http.Request) error {
		r.Header.Set("Authorization", "Bearer "+token)
		return nil
	}}
}

// LoginError is the error of a request for which there are no credentials.
type LoginError struct {
	Purpose string
	Err     error
}

func (e *LoginError) Error() string { return e.Purpose + ": " + e.Err.Error() }

func (e *LoginError) Unwrap() error { return e.Err }

// NewClient builds a client for the settings. The name is used in traces of connections. If a login is
// given, it authorizes the requests; otherwise, OAuth2 does so if it is set. Proxies come from the
// environment (HTTPS_PROXY, NO_PROXY). The client does not follow redirects.
func (a Access) NewClient(name string, login *Login) (*http.Client, error) {
	return NewClient(a, a.ClientConfig(), name, login)
}

// NewClient builds a client as [Access.NewClient] does, for a modified ClientConfig of access.
func NewClient(access Access, cfg config.HTTPClientConfig, name string, login *Login) (*http.Client, error) {
	client, err := config.NewClientFromConfig(cfg, name, config.WithUserAgent("hpad"), Secrets)
	if err != nil {
		return nil, err
	}
	if login == nil && access.OAuth2 != nil {
		if login, err = access.OAuth2.login(name); err != nil {
			return nil, err
		}
	}
	if login != nil {
		client.Transport = &loginTransport{next: client.Transport, login: *login, turn: semaphore.NewWeighted(1)}
	}
	return client, nil
}

const (
	// loginTimeout limits one login, in addition to the timeout of the request that needs it.
	loginTimeout = 30 * time.Second
	// renewBefore is the time before the end of credentials at which they are renewed.
	renewBefore = 10 * time.Second
	// rejectableAfter is the minimum age of credentials that a rejected request renews. It limits the
	// logins while a server rejects all credentials.
	rejectableAfter = 10 * time.Second
	// repeatAfter is the time after a failed login in which all requests return its error.
	repeatAfter = time.Second
)

// loginTransport authorizes requests. It shares the credentials between all requests, and renews them
// before they expire and after a server has rejected them.
type loginTransport struct {
	next  http.RoundTripper
	login Login

	// turn is held during a login, and for access to the fields below.
	turn    *semaphore.Weighted
	current *issued
	failure error
	failed  time.Time
}

// issued adds the time of the login to credentials.
type issued struct {
	Credentials
	since time.Time
}

// RoundTrip sends an authorized request. If the server rejects credentials that are not new, RoundTrip
// renews them and sends the request again.
func (t *loginTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		defer func() { _ = r.Body.Close() }()
	}
	if isForeign(r) {
		return t.next.RoundTrip(r)
	}
	credentials, err := t.credentials(r.Context(), nil)
	if err != nil {
		return nil, err
	}
	response, err := t.send(r, credentials)
	if err != nil || response.StatusCode != http.StatusUnauthorized && response.StatusCode != http.StatusForbidden ||
		time.Since(credentials.since) < rejectableAfter {
		return response, err
	}
	_, _ = io.CopyN(io.Discard, response.Body, maxDiscarded)
	_ = response.Body.Close()
	renewed, err := t.credentials(r.Context(), credentials)
	if err != nil {
		return nil, err
	}
	return t.send(r, renewed)
}

// maxDiscarded limits the part of a rejection that is read so that its connection can be reused, in
// bytes.
const maxDiscarded = 64 << 10

func (t *loginTransport) send(r *http.Request, credentials *issued) (*http.Response, error) {
	authorized := r.Clone(r.Context())
	if r.GetBody != nil {
		body, err := r.GetBody()
		if err != nil {
			return nil, err
		}
		authorized.Body = body
	}
	if err := credentials.Authorize(authorized); err != nil {
		return nil, &LoginError{t.login.Purpose, err}
	}
	return t.next.RoundTrip(authorized)
}

// credentials returns the stored credentials. It logs in first if they expire soon or equal the rejected
// credentials, which may be nil.
func (t *loginTransport) credentials(ctx context.Context, rejected *issued) (*issued, error) {
	ctx, cancel := context.WithTimeout(ctx, loginTimeout)
	defer cancel()
	if err := t.turn.Acquire(ctx, 1); err != nil {
		return nil, &LoginError{t.login.Purpose, fmt.Errorf("wait for the login of another request: %w", err)}
	}
	defer t.turn.Release(1)
	switch now := time.Now(); {
	case t.current != nil && t.current != rejected && (t.current.Expires.IsZero() || now.Before(t.current.Expires.Add(-renewBefore))):
		return t.current, nil
	case now.Sub(t.failed) < repeatAfter:
		return nil, t.failure
	}
	credentials, err := t.login.Get(ctx)
	if err != nil {
		err = &LoginError{t.login.Purpose, err}
		if ctx.Err() == nil {
			t.failure, t.failed = err, time.Now()
		}
		return nil, err
	}
	t.current = &issued{credentials, time.Now()}
	return t.current, nil
}

// CloseIdleConnections closes the idle connections of the next transport.
func (t *loginTransport) CloseIdleConnections() {
	if next, ok := t.next.(interface{ CloseIdleConnections() }); ok {
		next.CloseIdleConnections()
	}
}

// isForeign reports whether a request follows a redirect to another host or scheme, which must not
// receive the credentials.
func isForeign(r *http.Request) bool {
	first := r
	for first.Response != nil && first.Response.Request != nil {
		first = first.Response.Request
	}
	return first.URL.Host != r.URL.Host || first.URL.Scheme != r.URL.Scheme
}
