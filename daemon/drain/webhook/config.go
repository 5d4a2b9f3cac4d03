package webhook

import (
	"cmp"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/config"

	"github.com/hpad/hpad/policy"
)

// DefaultTimeout is how long one call may take.
const DefaultTimeout = 10 * time.Second

// longestTimeout is less than what one call of any drainer gets.
const longestTimeout = 50 * time.Second

// Config says who is called.
type Config struct {
	// URL is what is posted to, http or https, without credentials.
	URL string `toml:"url"`
	// Timeout bounds one call, from sending it to the end of the answer: up to 50s.
	Timeout time.Duration `toml:"timeout"`
	// BasicAuth are the credentials of HTTP basic authentication; nil for none.
	BasicAuth *BasicAuth `toml:"basic_auth"`
	// TokenFile is a file with a bearer token, read again for every call; empty for
	// none.
	TokenFile string `toml:"token_file"`
	// HeaderFiles are files with the values of headers to be sent, read again for
	// every call; Headers are headers that are no secrets.
	HeaderFiles map[string]string `toml:"header_files"`
	Headers     map[string]string `toml:"headers"`
	// TLS applies to an https URL.
	TLS TLS `toml:"tls"`
}

// BasicAuth are the credentials of HTTP basic authentication.
type BasicAuth struct {
	Username string `toml:"username"`
	// PasswordFile is a file with the password, read again for every call; empty
	// means an empty password.
	PasswordFile string `toml:"password_file"`
}

// TLS says whom to trust and who hpad is. Files are read again when they change.
type TLS struct {
	// CAFile has the certificates of the authorities to trust, in PEM; empty means
	// those of the system.
	CAFile string `toml:"ca_file"`
	// CertFile and KeyFile are the client's certificate and key in PEM; both or
	// neither.
	CertFile string `toml:"cert_file"`
	KeyFile  string `toml:"key_file"`
	// ServerName is the name the server's certificate must be for; empty means the
	// host of the URL.
	ServerName string `toml:"server_name"`
	// InsecureSkipVerify accepts any certificate.
	InsecureSkipVerify bool `toml:"insecure_skip_verify"`
}

// SetDefaults fills in what was not given.
func (c *Config) SetDefaults() { c.Timeout = cmp.Or(c.Timeout, DefaultTimeout) }

// Validate answers every mistake in a configuration that has its defaults; nil
// means that there is none. Fields are relative to the table, as "tls.key_file".
func (c *Config) Validate() []policy.FieldError {
	var mistakes []policy.FieldError
	add := func(field, value, detail string) {
		mistakes = append(mistakes, policy.FieldError{Field: field, Value: value, Detail: detail})
	}
	if detail := checkURL(c.URL); detail != "" {
		add("url", "", detail)
	}
	if c.Timeout <= 0 || c.Timeout > longestTimeout {
		add("timeout", strconv.Quote(c.Timeout.String()), "must be more than 0, and "+longestTimeout.String()+" at most")
	}
	if c.BasicAuth != nil && c.BasicAuth.Username == "" {
		add("basic_auth.username", "", "must be set")
	}
	if c.BasicAuth != nil && c.TokenFile != "" {
		add("token_file", strconv.Quote(c.TokenFile), "cannot be combined with basic_auth; keep one of them")
	}
	for _, headers := range []struct {
		field  string
		values map[string]string
	}{{"headers", c.Headers}, {"header_files", c.HeaderFiles}} {
		for _, name := range slices.Sorted(maps.Keys(headers.values)) {
			if detail := checkHeader(name, headers.values[name]); detail != "" {
				add(headers.field+"."+name, "", detail)
			}
		}
	}
	if c.TLS.CertFile != "" && c.TLS.KeyFile == "" {
		add("tls.key_file", "", "must be set where tls.cert_file is")
	}
	if c.TLS.KeyFile != "" && c.TLS.CertFile == "" {
		add("tls.cert_file", "", "must be set where tls.key_file is")
	}
	return mistakes
}

// checkURL says what is wrong with an address; "" when nothing is. It may hold a
// secret and is never told.
func checkURL(text string) string {
	address, err := url.Parse(text)
	switch {
	case text == "", err != nil, address.Scheme != "http" && address.Scheme != "https", address.Hostname() == "":
		return `must be an address to post to, as "https://drain.example.com/hpad"`
	case address.User != nil:
		return "must not hold credentials: use basic_auth or token_file"
	}
	return ""
}

// checkHeader says what is wrong with a header; "" when nothing is.
func checkHeader(name, value string) string {
	canonical := http.CanonicalHeaderKey(name)
	_, reserved := config.ReservedHeaders[canonical]
	switch {
	case canonical == "Authorization":
		return "must not be set here: use basic_auth or token_file"
	case reserved || canonical == "Content-Type":
		return "must not be set: the connection needs it"
	case name == "" || strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune(`:"(),/;<=>?@[\]{}`, r) }):
		return "is not the name of a header: use letters, digits and hyphens"
	case strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }):
		return "must not hold control characters such as line ends"
	}
	return ""
}

// client says what the configuration says in the words of the HTTP client.
// Redirects are not followed: they would lose the body.
func (c *Config) client() config.HTTPClientConfig {
	made := config.HTTPClientConfig{
		EnableHTTP2: true,
		ProxyConfig: config.ProxyConfig{ProxyFromEnvironment: true},
		TLSConfig: config.TLSConfig{
			CAFile: c.TLS.CAFile, CertFile: c.TLS.CertFile, KeyFile: c.TLS.KeyFile,
			ServerName: c.TLS.ServerName, InsecureSkipVerify: c.TLS.InsecureSkipVerify,
		},
	}
	if c.BasicAuth != nil {
		made.BasicAuth = &config.BasicAuth{Username: c.BasicAuth.Username, PasswordFile: c.BasicAuth.PasswordFile}
	}
	if c.TokenFile != "" {
		made.Authorization = &config.Authorization{Type: "Bearer", CredentialsFile: c.TokenFile}
	}
	if len(c.Headers)+len(c.HeaderFiles) > 0 {
		made.HTTPHeaders = &config.Headers{Headers: map[string]config.Header{}}
		for name, value := range c.Headers {
			made.HTTPHeaders.Headers[name] = config.Header{Values: []string{value}}
		}
		for name, file := range c.HeaderFiles {
			made.HTTPHeaders.Headers[name] = config.Header{Files: []string{file}}
		}
	}
	return made
}
