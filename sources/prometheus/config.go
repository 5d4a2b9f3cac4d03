package prometheus

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

// Defaults of a Config.
const (
	DefaultTimeout       = 10 * time.Second
	DefaultMaxConcurrent = 20
)

// Config is one [sources.NAME] table of kind "prometheus".
type Config struct {
	// URL is where the server is, http or https, with the path prefix it is
	// served under if it has one. It holds no credentials.
	URL string `toml:"url"`
	// Timeout bounds one query, from sending it to the end of the answer; more
	// than 0. The wait for one of MaxConcurrent comes on top.
	Timeout time.Duration `toml:"timeout"`
	// MaxAge is how old the newest sample of a series may be to count: whole
	// seconds, sent as the query's lookback_delta. It has no bearing on ranges in
	// square brackets. 0 leaves it to the server, whose own default is 5m.
	// Servers before 2.43 ignore it; Check says so.
	MaxAge time.Duration `toml:"max_age"`
	// MaxConcurrent bounds the queries under way at once; at least 1.
	MaxConcurrent int `toml:"max_concurrent"`
	// BasicAuth are the credentials of HTTP basic authentication; nil for none.
	BasicAuth *BasicAuth `toml:"basic_auth"`
	// TokenFile is a file with a bearer token, read again for every query; empty
	// for none.
	TokenFile string `toml:"token_file"`
	// Headers are sent with every query, such as a tenant's name. They are the
	// only place where a secret may be inline.
	Headers map[string]string `toml:"headers"`
	// TLS applies to an https URL.
	TLS TLS `toml:"tls"`
}

// BasicAuth are the credentials of HTTP basic authentication.
type BasicAuth struct {
	Username string `toml:"username"`
	// PasswordFile is a file with the password, read again for every query; empty
	// means an empty password.
	PasswordFile string `toml:"password_file"`
}

// TLS says whom to trust and who hpad is. Files are read again when they change.
type TLS struct {
	// CAFile has the certificates of the authorities to trust, in PEM; empty
	// means those of the system.
	CAFile string `toml:"ca_file"`
	// CertFile and KeyFile are the client's certificate and key in PEM; both or
	// neither.
	CertFile string `toml:"cert_file"`
	KeyFile  string `toml:"key_file"`
	// ServerName is the name the server's certificate must be for; empty means
	// the host of the URL.
	ServerName string `toml:"server_name"`
	// InsecureSkipVerify accepts any certificate.
	InsecureSkipVerify bool `toml:"insecure_skip_verify"`
}

// SetDefaults fills in what was not given.
func (c *Config) SetDefaults() {
	c.Timeout = cmp.Or(c.Timeout, DefaultTimeout)
	c.MaxConcurrent = cmp.Or(c.MaxConcurrent, DefaultMaxConcurrent)
}

// Validate answers every mistake in a configuration that has its defaults; nil
// means that there is none. Fields are relative to the table, as "tls.key_file".
func (c *Config) Validate() []policy.FieldError {
	var mistakes []policy.FieldError
	add := func(field, value, detail string) {
		mistakes = append(mistakes, policy.FieldError{Field: field, Value: value, Detail: detail})
	}

	if detail := checkURL(c.URL); detail != "" {
		add("url", quoteURL(c.URL), detail)
	}
	if c.Timeout <= 0 {
		add("timeout", strconv.Quote(c.Timeout.String()), `must be more than 0, as "10s"`)
	}
	if c.MaxAge < 0 || c.MaxAge%time.Second != 0 {
		add("max_age", strconv.Quote(c.MaxAge.String()), `must be whole seconds, as "90s", or 0 for the server's own default`)
	}
	if c.MaxConcurrent < 1 {
		add("max_concurrent", strconv.Itoa(c.MaxConcurrent), "must be at least 1")
	}
	if c.BasicAuth != nil {
		if c.BasicAuth.Username == "" {
			add("basic_auth.username", "", "must be set")
		}
		if c.TokenFile != "" {
			add("token_file", strconv.Quote(c.TokenFile), "cannot be combined with basic_auth; keep one of them")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Headers)) {
		if detail := checkHeader(name, c.Headers[name]); detail != "" {
			add("headers."+name, "", detail)
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

// Redacted answers a copy for people to see: the values of headers, which may be
// secret, are replaced.
func (c *Config) Redacted() *Config {
	redacted := *c
	redacted.Headers = maps.Clone(c.Headers)
	for name := range redacted.Headers {
		redacted.Headers[name] = "<redacted>"
	}
	return &redacted
}

// checkURL says what is wrong with the address of a server; "" when nothing is.
func checkURL(text string) string {
	const form = `must be the address of a Prometheus server, as "http://127.0.0.1:9090"`
	if text == "" {
		return form
	}
	address, err := url.Parse(text)
	switch {
	case err != nil, address.Scheme != "http" && address.Scheme != "https", address.Hostname() == "":
		return form
	case address.User != nil:
		return "must not hold credentials: use basic_auth or token_file"
	case address.RawQuery != "" || address.ForceQuery || address.Fragment != "":
		return `must end with the path: no "?" and no "#"`
	}
	return ""
}

// quoteURL is how a mistaken address is shown; "" where it may hold a secret.
func quoteURL(text string) string {
	if text == "" || strings.ContainsAny(text, "@?") {
		return ""
	}
	return strconv.Quote(text)
}

// checkHeader says what is wrong with a header; "" when nothing is. The value
// may be secret and is never told.
func checkHeader(name, value string) string {
	_, reserved := config.ReservedHeaders[http.CanonicalHeaderKey(name)]
	switch {
	case http.CanonicalHeaderKey(name) == "Authorization":
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

// notInHeaderName says that a header's name cannot hold r (RFC 9110, 5.6.2).
func notInHeaderName(r rune) bool {
	switch {
	case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9':
		return false
	}
	return !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
}
