package httpclient

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"

	"github.com/hpad/hpad/settings"
	"github.com/hpad/hpad/settings/secret"
)

// OAuth2 contains the client credentials for the access tokens of requests (OAuth 2.0, RFC 6749,
// section 4.4).
type OAuth2 struct {
	// TokenURL is the http or https address that issues access tokens.
	TokenURL string `toml:"token_url" required:"the URL that issues access tokens"`
	// ClientID is the name of the client.
	ClientID string `toml:"client_id" required:"the ID of the client"`
	// ClientSecretFile is the path of a file with the secret of the client, which is read again for
	// every token.
	ClientSecretFile string `toml:"client_secret_file" required:"a file with the secret of the client"`
	// Scopes lists the requested permissions; may be empty.
	Scopes []string `toml:"scopes"`
	// EndpointParams contains further parameters of token requests, such as "audience". It must not
	// contain secrets.
	EndpointParams map[string]string `toml:"endpoint_params"`
	// TLS applies to an https TokenURL. Its files are read again after a change.
	TLS TLS `toml:"tls"`
}

var tokenAddress = Address{
	Form:        `must be the URL of a token endpoint, such as "https://login.example/oauth2/token"`,
	Credentials: "client_id and client_secret_file",
	End:         `must end with the path: no "?" and no "#"; use endpoint_params`,
}

// Validate returns the errors below "oauth2" that the field tags do not cover. A nil OAuth2 is valid.
func (o *OAuth2) Validate() []settings.FieldError {
	if o == nil {
		return nil
	}
	errs := settings.FieldErrors(ValidateParams("endpoint_params", o.EndpointParams, "grant_type", "client_id", "scope"))
	if detail := tokenAddress.Check(o.TokenURL); o.TokenURL != "" && detail != "" {
		errs.Add("token_url", QuoteAddress(o.TokenURL), detail)
	}
	errs = append(errs, o.TLS.Validate()...)
	for i := range errs {
		errs[i].Field = "oauth2." + errs[i].Field
	}
	return errs
}

// login returns a login that gets access tokens. Each token request reads the secret again.
func (o *OAuth2) login(name string) (*Login, error) {
	client, err := Access{TLS: o.TLS}.NewClient(name, nil)
	if err != nil {
		return nil, err
	}
	params := url.Values{}
	for key, value := range o.EndpointParams {
		params.Set(key, value)
	}
	return &Login{
		Purpose: fmt.Sprintf("get an access token from %q", o.TokenURL),
		Get: func(ctx context.Context) (Credentials, error) {
			defer client.CloseIdleConnections() // the next token request is far away
			password, err := secret.Read(o.ClientSecretFile)
			if err != nil {
				return Credentials{}, fmt.Errorf("read client_secret_file: %w", err)
			}
			request := clientcredentials.Config{
				ClientID: o.ClientID, ClientSecret: password, TokenURL: o.TokenURL, Scopes: o.Scopes, EndpointParams: params,
			}
			token, err := request.Token(context.WithValue(ctx, oauth2.HTTPClient, client))
			if err != nil {
				return Credentials{}, explainTokenError(err)
			}
			return Bearer(token.AccessToken, token.Expiry), nil
		},
	}, nil
}

// maxShownError is the maximum length of the quoted response of a token endpoint in bytes.
const maxShownError = 300

// explainTokenError returns the error without the URL, and only the start of a response.
func explainTokenError(err error) error {
	if rejection, ok := errors.AsType[*oauth2.RetrieveError](err); ok && rejection.Response != nil {
		text := strings.TrimSpace(rejection.ErrorCode + " " + rejection.ErrorDescription)
		if text == "" {
			text = string(rejection.Body)
		}
		text = strings.ToValidUTF8(text[:min(len(text), maxShownError)], "?")
		status := rejection.Response.StatusCode
		return fmt.Errorf("server returned %d %s: %q", status, http.StatusText(status), text)
	}
	if failure, ok := errors.AsType[*url.Error](err); ok {
		return failure.Err
	}
	return err
}
