package prometheus

import (
	"cmp"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/hpad/hpad/settings"

	"github.com/hpad/hpad/settings/httpclient"
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
	// Servers before 2.43 ignore it, which "hpad check --live" tells.
	MaxAge time.Duration `toml:"max_age"`
	// TimeTolerance is how far the time that a result states may be from the instant
	// that was asked for; 0 means not at all, to the millisecond. It is for servers
	// that state the time of a sample, or whole seconds: what is older still counts.
	TimeTolerance time.Duration `toml:"time_tolerance"`
	// MaxConcurrent bounds the queries that are sent and not answered yet; at least 1.
	MaxConcurrent int `toml:"max_concurrent"`
	// Access is how the server is reached. Its Headers are the only place where a
	// secret may be inline.
	httpclient.Access
}

// SetDefaults fills in what was not given.
func (c *Config) SetDefaults() {
	c.Timeout = cmp.Or(c.Timeout, DefaultTimeout)
	c.MaxConcurrent = cmp.Or(c.MaxConcurrent, DefaultMaxConcurrent)
}

// Validate answers every mistake in a configuration that has its defaults; nil
// means that there is none. Fields are relative to the table, as "tls.key_file".
func (c *Config) Validate() []settings.FieldError {
	var mistakes []settings.FieldError
	add := func(field, value, detail string) {
		mistakes = append(mistakes, settings.FieldError{Field: field, Value: value, Detail: detail})
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
	if c.TimeTolerance < 0 {
		add("time_tolerance", strconv.Quote(c.TimeTolerance.String()), `must be at least 0s`)
	}
	if c.MaxConcurrent < 1 {
		add("max_concurrent", strconv.Itoa(c.MaxConcurrent), "must be at least 1")
	}
	return append(mistakes, c.Access.Validate()...)
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
