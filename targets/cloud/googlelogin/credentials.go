package googlelogin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"

	"cloud.google.com/go/auth"
	"cloud.google.com/go/auth/credentials"
	"cloud.google.com/go/auth/credentials/impersonate"
	"cloud.google.com/go/auth/httptransport"

	"github.com/hpad/hpad/targets/cloud"
)

// tokenScope is the scope of all tokens; roles determine the permissions.
const tokenScope = "https://www.googleapis.com/auth/cloud-platform"

// Find returns the configured credentials or the Application Default Credentials. If a service account is
// configured, it returns the credentials of that account. They get their tokens with the given
// client. Find is no method, so that the linker omits the SDK if a build does not call it.
func Find(l *Login, tokens *http.Client) (*auth.Credentials, error) {
	options := &credentials.DetectOptions{Scopes: []string{tokenScope}, Client: tokens}
	var found *auth.Credentials
	var err error
	if l.CredentialsFile == "" {
		found, err = credentials.DetectDefault(options)
	} else {
		found, err = fileCredentials(l.CredentialsFile, options)
	}
	if err != nil {
		return nil, fmt.Errorf("find credentials: %w", err)
	}
	if path := l.Path(); path != "" { // other credentials require a call for their domain
		domain, err := found.UniverseDomain(context.Background())
		if err == nil && domain != l.UniverseDomain {
			return nil, fmt.Errorf("credentials in %q belong to universe domain %q, not to %q: set universe_domain, or use other credentials", path, domain, l.UniverseDomain)
		}
	}
	if l.Impersonate == "" {
		return found, nil
	}
	if found, err = actAs(l, found, tokens, options.Scopes); err != nil {
		return nil, fmt.Errorf("impersonate %q: %w", l.Impersonate, err)
	}
	return found, nil
}

func actAs(l *Login, own *auth.Credentials, tokens *http.Client, scopes []string) (*auth.Credentials, error) {
	asking, err := httptransport.NewClient(&httptransport.Options{
		Credentials: own, BaseRoundTripper: &tokenRejections{tokens.Transport}, UniverseDomain: l.UniverseDomain, DisableTelemetry: true,
	})
	if err != nil {
		return nil, err
	}
	asking.Timeout = tokens.Timeout
	return impersonate.NewCredentials(&impersonate.CredentialsOptions{
		TargetPrincipal: l.Impersonate, Scopes: scopes, Credentials: own, Client: asking, UniverseDomain: l.UniverseDomain,
	})
}

// tokenRejections converts responses that reject a token request to errors.
type tokenRejections struct{ http.RoundTripper }

const longestRejection = 64 << 10

// RoundTrip returns a tokenError for a rejection.
func (r *tokenRejections) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := r.RoundTripper.RoundTrip(request)
	if err != nil || response.StatusCode < http.StatusMultipleChoices {
		return response, err
	}
	defer func() { _ = response.Body.Close() }()
	var body struct{ Error struct{ Message string } }
	_ = json.NewDecoder(io.LimitReader(response.Body, longestRejection)).Decode(&body) // a body in a different format has no message
	return nil, tokenError{&cloud.ResponseError{Platform: "the server", Status: response.StatusCode, Message: body.Error.Message}}
}

func fileCredentials(path string, options *credentials.DetectOptions) (*auth.Credentials, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read credentials_file: %w", err)
	}
	var kind struct{ Type credentials.CredType }
	if err := json.Unmarshal(text, &kind); err != nil {
		// The error may contain a part of the file.
		return nil, fmt.Errorf("credentials_file %q is not a JSON credentials file", path)
	}
	if kind.Type == "" {
		return nil, fmt.Errorf(`credentials_file %q does not contain the "type" of its credentials`, path)
	}
	found, err := credentials.NewCredentialsFromJSON(kind.Type, text, options)
	if err != nil {
		return nil, fmt.Errorf("use credentials_file %q: %w", path, err)
	}
	return found, nil
}

type tokenError struct{ *cloud.ResponseError }

// Explain converts an error that occurred while getting a token to a
// cloud.TokenError.
func Explain(err error) error {
	if acting, ok := errors.AsType[tokenError](err); ok {
		return &cloud.TokenError{Err: err, Status: acting.Status}
	}
	if own, ok := errors.AsType[*auth.Error](err); ok && own.Response != nil {
		return &cloud.TokenError{Err: err, Status: own.Response.StatusCode}
	}
	return err
}
