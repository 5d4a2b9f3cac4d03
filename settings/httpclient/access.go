// Package httpclient holds what the configurations of all HTTP clients have in
// common: who hpad is towards a server, and whom it trusts.
package httpclient

import (
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/hpad/hpad/settings"

	"github.com/prometheus/common/config"
)

// Access says who hpad is towards a server, and whom it trusts. It is embedded in
// configurations.
type Access struct {
	// BasicAuth are the credentials of HTTP basic authentication; nil for none.
	BasicAuth *BasicAuth `toml:"basic_auth"`
	// TokenFile is a file with a bearer token, read again for every request; empty
	// for none.
	TokenFile string `toml:"token_file"`
	// Headers are sent with every request, such as a tenant's name.
	Headers map[string]string `toml:"headers" secret:"true"`
	// TLS applies to https. Its files are read again when they change.
	TLS TLS `toml:"tls"`
}

// BasicAuth are the credentials of HTTP basic authentication.
type BasicAuth struct {
	Username string `toml:"username"`
	// PasswordFile is a file with the password, whose changes are followed; empty
	// means an empty password.
	PasswordFile string `toml:"password_file"`
}

// TLS says whom to trust and who hpad is.
type TLS struct {
	// CAFile has the certificates of the authorities to trust, in PEM; empty means
	// those of the system.
	CAFile string `toml:"ca_file"`
	// CertFile and KeyFile are the client's certificate and key in PEM; both or
	// neither.
	CertFile string `toml:"cert_file"`
	KeyFile  string `toml:"key_file"`
	// ServerName is the name the server's certificate must be for; empty means the
	// host of the address.
	ServerName string `toml:"server_name"`
	// InsecureSkipVerify accepts any certificate.
	InsecureSkipVerify bool `toml:"insecure_skip_verify"`
}

// Validate returns every mistake in an Access; nil means that there is none.
// Fields are relative to its table, as "tls.key_file".
func (a Access) Validate() []settings.FieldError {
	mistakes := a.BasicAuth.Validate()
	if a.BasicAuth != nil && a.TokenFile != "" {
		mistakes = append(mistakes, settings.FieldError{
			Field: "token_file", Value: strconv.Quote(a.TokenFile), Detail: "cannot be combined with basic_auth; keep one of them",
		})
	}
	mistakes = append(mistakes, ValidateHeaders("headers", a.Headers)...)
	return append(mistakes, a.TLS.Validate()...)
}

// Validate returns every mistake in credentials, below "basic_auth"; nil means
// that there is none, as in credentials that are nil.
func (b *BasicAuth) Validate() []settings.FieldError {
	if b != nil && b.Username == "" {
		return []settings.FieldError{{Field: "basic_auth.username", Detail: "must be set"}}
	}
	return nil
}

// Validate returns every mistake in what is said of TLS, below "tls"; nil means
// that there is none, as in a TLS that is nil.
func (t *TLS) Validate() []settings.FieldError {
	switch {
	case t == nil:
		return nil
	case t.CertFile != "" && t.KeyFile == "":
		return []settings.FieldError{{Field: "tls.key_file", Detail: "must be set where tls.cert_file is"}}
	case t.KeyFile != "" && t.CertFile == "":
		return []settings.FieldError{{Field: "tls.cert_file", Detail: "must be set where tls.key_file is"}}
	}
	return nil
}

// ValidateHeaders returns every mistake in a table of headers, below its name; nil
// means that there is none. Values may be secret and are never quoted.
func ValidateHeaders(table string, headers map[string]string) []settings.FieldError {
	var mistakes []settings.FieldError
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		if detail := checkHeader(name, headers[name]); detail != "" {
			mistakes = append(mistakes, settings.FieldError{Field: table + "." + name, Detail: detail})
		}
	}
	return mistakes
}

// checkHeader says what is wrong with a header; "" when nothing is.
func checkHeader(name, value string) string {
	canonical := http.CanonicalHeaderKey(name)
	_, reserved := config.ReservedHeaders[canonical]
	switch {
	case canonical == "Authorization":
		return "must not be set here: use basic_auth or token_file"
	case reserved:
		return "must not be set: the connection needs it"
	case name == "" || strings.ContainsFunc(name, notInHeaderName):
		return "is not the name of a header: use letters, digits and hyphens"
	case strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }):
		return "must not hold control characters such as line ends"
	}
	return ""
}

// notInHeaderName reports whether a header's name cannot hold r (RFC 9110, 5.6.2).
func notInHeaderName(r rune) bool {
	switch {
	case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9':
		return false
	}
	return !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
}

// ClientConfig says what an Access says in the words of the client's library.
// Proxies are those of the environment (HTTPS_PROXY, NO_PROXY). Redirects are not
// followed: they would lose the body of a request.
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
		made.BasicAuth = &config.BasicAuth{Username: a.BasicAuth.Username, PasswordFile: a.BasicAuth.PasswordFile}
	}
	if a.TokenFile != "" {
		made.Authorization = &config.Authorization{Type: "Bearer", CredentialsFile: a.TokenFile}
	}
	for name, value := range a.Headers {
		made.HTTPHeaders.Headers[name] = config.Header{Values: []string{value}}
	}
	return made
}
