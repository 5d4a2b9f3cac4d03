// Package httpclient contains the common configuration of HTTP clients: credentials, headers
// and TLS.
package httpclient

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/hpad/hpad/settings"
	"github.com/hpad/hpad/settings/secret"

	"github.com/prometheus/common/config"
)

// Access contains the credentials and TLS settings for a server. Configurations embed it.
type Access struct {
	// BasicAuth contains the credentials for HTTP basic authentication; without this table, basic
	// authentication is disabled.
	BasicAuth *BasicAuth `toml:"basic_auth"`
	// TokenFile is the path of a file with a bearer token, which is read again for every
	// request; may be empty.
	TokenFile string `toml:"token_file" excludes:"basic_auth"`
	// OAuth2 contains the client credentials for access tokens; without this table, OAuth 2 is
	// disabled. Tokens are renewed before they expire.
	OAuth2 *OAuth2 `toml:"oauth2" excludes:"basic_auth token_file"`
	// Headers contains headers that are sent with every request, such as a tenant name.
	Headers map[string]string `toml:"headers"`
	// TLS applies to https. Its files are read again after a change.
	TLS TLS `toml:"tls"`
}

// BasicAuth contains the credentials for HTTP basic authentication.
type BasicAuth struct {
	// Username is the user name; not empty.
	Username string `toml:"username" required:"the name of the user"`
	// PasswordFile is the path of a file with the password, which is read again after a change.
	// If it is empty, the password is empty.
	PasswordFile string `toml:"password_file"`
}

// TLS contains the trusted CAs and the client certificate.
type TLS struct {
	// CAFile is the path of the trusted CA certificates in PEM. If it is empty, the system's
	// CAs are trusted.
	CAFile string `toml:"ca_file"`
	// CertFile and KeyFile are the paths of the client certificate and its key in PEM. Set both
	// or neither.
	CertFile string `toml:"cert_file" requires:"key_file"`
	KeyFile  string `toml:"key_file" requires:"cert_file"`
	// ServerName is the expected name in the server's certificate. If it is empty, the host of
	// the address is expected.
	ServerName string `toml:"server_name"`
	// InsecureSkipVerify accepts any certificate.
	InsecureSkipVerify bool `toml:"insecure_skip_verify"`
}

// Validate returns the errors that the field tags do not cover. Field paths are relative to the
// table, such as "tls.server_name".
func (a Access) Validate() []settings.FieldError {
	return slices.Concat(ValidateHeaders("headers", a.Headers), a.TLS.Validate(), a.OAuth2.Validate())
}

// Validate returns the errors below "tls" that the field tags do not cover. A nil TLS is valid.
func (t *TLS) Validate() []settings.FieldError {
	if t == nil || t.ServerName == "" || settings.ValidHost(t.ServerName) {
		return nil
	}
	return []settings.FieldError{{Field: "tls.server_name", Value: strconv.Quote(t.ServerName), Detail: "must be a host name without a port"}}
}

// ValidateHeaders returns all errors in a table of headers. It never quotes values, because
// they may be secret.
func ValidateHeaders(table string, headers map[string]string) []settings.FieldError {
	var errs []settings.FieldError
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		if detail := checkHeader(name, headers[name]); detail != "" {
			errs = append(errs, settings.FieldError{Field: table + "." + name, Detail: detail})
		}
	}
	return errs
}

// ValidateParams returns all errors in a table of URL or form parameters: reserved names and secrets,
// because servers and proxies log parameters.
func ValidateParams(table string, params map[string]string, reserved ...string) []settings.FieldError {
	var errs []settings.FieldError
	for _, name := range slices.Sorted(maps.Keys(params)) {
		detail := ""
		switch {
		case name == "":
			detail = "is not a name of a parameter"
		case slices.Contains(reserved, name):
			detail = "must not be set: hpad sets it"
		case secret.Named(name):
			detail = "must not contain a secret, because parameters appear in logs: use headers, or a key that names a file"
		}
		if detail != "" {
			errs = append(errs, settings.FieldError{Field: table + "." + name, Detail: detail})
		}
	}
	return errs
}

// checkHeader returns the error of a header, or "" if it is valid.
func checkHeader(name, value string) string {
	canonical := http.CanonicalHeaderKey(name)
	_, reserved := config.ReservedHeaders[canonical]
	switch {
	case canonical == "Authorization":
		return "must not be set here: use basic_auth, token_file or oauth2"
	case reserved:
		return "must not be set: it is reserved for the connection"
	case name == "" || strings.ContainsFunc(name, notInHeaderName):
		return "is not a valid header name: use letters, digits and hyphens"
	case strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }):
		return "must not contain control characters such as line ends"
	}
	return ""
}

// notInHeaderName reports whether r is not allowed in a header name (RFC 9110, 5.6.2).
func notInHeaderName(r rune) bool {
	switch {
	case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9':
		return false
	}
	return !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
}

// SetHeaderFiles sets each header to the content of its file. It returns the error of a file that it
// cannot read.
func SetHeaderFiles(header http.Header, files map[string]string) error {
	for name, file := range files {
		value, err := secret.Read(file)
		if err != nil {
			return fmt.Errorf("read header_files.%s: %w", name, err)
		}
		header.Set(name, value)
	}
	return nil
}

// Secrets is the option for clients of a ClientConfig: they read their secrets with package secret.
var Secrets = config.WithSecretManager(secret.Files{})

// ClientConfig converts the settings. Proxies come from the environment (HTTPS_PROXY,
// NO_PROXY). [NewClient] makes a client of it, which does not follow redirects, because they would lose
// the body of a request.
func (a Access) ClientConfig() config.HTTPClientConfig {
	made := config.HTTPClientConfig{
		EnableHTTP2: true,
		ProxyConfig: config.ProxyConfig{ProxyFromEnvironment: true},
		TLSConfig: config.TLSConfig{
			CAFile: a.TLS.CAFile, CertFile: a.TLS.CertFile, KeyFile: a.TLS.KeyFile,
			ServerName: a.TLS.ServerName, InsecureSkipVerify: a.TLS.InsecureSkipVerify,
		},
		HTTPHeaders: &config.Headers{Headers: make(map[string]config.Header, len(a.Headers))},
	}
	if a.BasicAuth != nil {
		made.BasicAuth = &config.BasicAuth{Username: a.BasicAuth.Username, PasswordRef: a.BasicAuth.PasswordFile}
	}
	if a.TokenFile != "" {
		made.Authorization = &config.Authorization{Type: "Bearer", CredentialsRef: a.TokenFile}
	}
	for name, value := range a.Headers {
		made.HTTPHeaders.Headers[name] = config.Header{Values: []string{value}}
	}
	return made
}
