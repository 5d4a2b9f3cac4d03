// Package prometheus evaluates queries with a Prometheus server, or anything else
// that speaks its HTTP API.
//
// A [Source] returns the values of the server, NaN included, and fills in nothing.
// Whatever is not a vector or scalar of plain numbers is an error.
package prometheus

import (
	"fmt"
	"net/url"
	"regexp"
	"time"

	"github.com/hpad/hpad/settings"
	"github.com/hpad/hpad/settings/httpclient"
	"github.com/hpad/hpad/sources"
)

// acceptWarnings is the OnWarnings by which results with warnings count as any others.
const acceptWarnings = "accept"

// Config is one [sources.NAME] table of kind "prometheus".
type Config struct {
	// URL is where the server is, http or https, with the path prefix it is
	// served under if it has one, and without a path such as "/graph" or
	// "/api/v1/query". It holds no credentials.
	URL string `toml:"url"`
	// Timeout bounds one query, from sending it to the end of the answer; more
	// than 0. The wait for one of MaxConcurrent comes on top.
	Timeout time.Duration `toml:"timeout" default:"10s" above:"0s" must:"more than 0, as \"10s\""`
	// MaxAge is how old the newest sample of a series may be to count: whole
	// seconds, sent as the query's lookback_delta. It has no bearing on ranges in
	// square brackets. 0 leaves it to the server, whose own default is 5m.
	// Prometheus before 2.43 ignores it.
	MaxAge time.Duration `toml:"max_age" min:"0s" whole:"1s" must:"whole seconds, as \"90s\", or 0 for the server's own default"`
	// TimeTolerance is how far the time that a result states may be from the instant
	// that was asked for; 0 means not at all, to the millisecond. It is for servers
	// that state the time of a sample, or whole seconds: what is older still counts.
	TimeTolerance time.Duration `toml:"time_tolerance" min:"0s"`
	// OnWarnings is the use of a result that the server marks as partial, as by a warning:
	// with "hold", or empty, it does not scale down; with "accept" it counts as any other,
	// and the warning is only shown.
	OnWarnings string `toml:"on_warnings" values:"hold accept"`
	// MaxConcurrent bounds the queries that are sent and not answered yet; at least 1.
	MaxConcurrent int `toml:"max_concurrent" default:"20" min:"1"`
	// Access is how the server is reached. Its Headers are the only place where a
	// secret may be inline.
	httpclient.Access
}

// SetDefaults fills in what was not given.
func (c *Config) SetDefaults() { settings.SetDefaults(c) }

// Validate returns every mistake of a defaulted configuration. Fields are relative to
// the table, as "tls.key_file".
func (c *Config) Validate() []settings.FieldError {
	var mistakes []settings.FieldError
	detail := server.Check(c.URL)
	if base := withoutOwnPath(c.URL); base != "" && (detail == "" || detail == server.End) {
		detail = fmt.Sprintf("must be the address of the server, without the path of a page or of the API: %q", base)
	}
	if detail != "" {
		mistake := settings.FieldError{Field: "url", Detail: detail}
		if c.URL != "" {
			mistake.Value = httpclient.QuoteAddress(c.URL)
		}
		mistakes = append(mistakes, mistake)
	}
	mistakes = append(mistakes, settings.Validate(c)...)
	return append(mistakes, c.Access.Validate()...)
}

var server = httpclient.Address{
	Form:        `must be the address of a Prometheus server, as "http://127.0.0.1:9090"`,
	Credentials: "basic_auth or token_file",
	End:         `must end with the path: no "?" and no "#"`,
}

// ownPath matches a path that ends with a page or an API path of Prometheus or a
// compatible server. A prefix such as that of the API server of Kubernetes, which
// continues after /api/v1, does not match.
var ownPath = regexp.MustCompile(`^(.*?)/+(api/v1(/+(query(_range|_exemplars)?|(format|parse)_query|series|labels|label/[^/]+/values|metadata|targets(/metadata)?|rules|alerts|status/\w+|write|read|remote_write|push))?|` +
	`((classic|new)/+)?(graph|query|alerts|targets|rules)|classic|vmui|federate|-/+(healthy|ready|reload))/*$`)

// withoutOwnPath returns the address of the server that an address of one of its pages
// or of its API belongs to; "" for any other address.
func withoutOwnPath(text string) string {
	address, err := url.Parse(text)
	if err != nil {
		return ""
	}
	found := ownPath.FindStringSubmatch(address.EscapedPath())
	if found == nil {
		return ""
	}
	return address.Scheme + "://" + address.Host + found[1]
}

// Kind is the kind of sources that ask a Prometheus.
var Kind = sources.Kind{Name: "prometheus", Config: func() sources.Config { return new(Config) }}

// Build makes a source of that name.
func (c *Config) Build(name string, env sources.Env) (sources.Source, error) {
	return New(name, c, env.Answers)
}
