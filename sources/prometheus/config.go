// Package prometheus implements a source that evaluates queries with a Prometheus server, or
// any server with the same HTTP API.
//
// A [Source] returns the values of the server, including NaN. Any result other than a vector or
// scalar of plain numbers is an error.
package prometheus

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"time"

	"github.com/hpad/hpad/settings"
	"github.com/hpad/hpad/settings/httpclient"
	"github.com/hpad/hpad/sources"
)

// acceptWarnings is the value of OnWarnings for which warnings do not prevent a scale-down.
const acceptWarnings = "accept"

// Config is one [sources.NAME] table of kind "prometheus".
type Config struct {
	// URL is the http or https address of the server, including its path prefix if it has one.
	// It must not contain credentials or a path such as "/graph" or "/api/v1/query".
	URL string `toml:"url"`
	// Timeout limits one query, including the response. It must be more than 0. It does not
	// include the wait that MaxConcurrent may cause.
	Timeout time.Duration `toml:"timeout" default:"10s" above:"0s" must:"more than 0, such as \"10s\""`
	// MaxAge is the maximum age of a sample in whole seconds, sent as the query's
	// lookback_delta. It does not affect ranges in square brackets. 0 means the server's
	// default, usually 5m. Prometheus before 2.43 ignores it.
	MaxAge time.Duration `toml:"max_age" min:"0s" whole:"1s" must:"whole seconds, such as \"90s\", or 0 for the server's own default"`
	// Method is "GET" or "POST". If it is empty, queries are POST, and GET after the server or a proxy
	// has rejected POST (403, 405 or 501) but not GET.
	Method string `toml:"method" values:"GET POST"`
	// Params contains parameters that are sent in the address of every query, such as "dedup". It must
	// not contain secrets.
	Params map[string]string `toml:"params"`
	// TimeTolerance is the permitted difference between the time of a result and the requested
	// instant; 0 requires equality to the millisecond. Use it for servers that return the time
	// of a sample, or whole seconds. Old samples are then accepted.
	TimeTolerance time.Duration `toml:"time_tolerance" min:"0s"`
	// OnWarnings determines how a partial result is used, for example a result with a warning.
	// "hold" or empty prevents a scale-down; "accept" only shows the warning.
	OnWarnings string `toml:"on_warnings" values:"hold accept"`
	// MaxConcurrent limits the concurrent queries. It must be at least 1.
	MaxConcurrent int `toml:"max_concurrent" default:"20" min:"1"`
	// Access contains the settings of the connection. Only its Headers may contain secrets.
	httpclient.Access
	cloudLogins
}

// SetDefaults sets missing values to their defaults.
func (c *Config) SetDefaults() {
	settings.SetDefaults(c)
	c.setDefaults()
}

// Validate returns all errors of a configuration with defaults applied. Field paths are
// relative to the table, such as "tls.key_file".
func (c *Config) Validate() []settings.FieldError {
	var errs []settings.FieldError
	detail := server.Check(c.URL)
	if base := withoutOwnPath(c.URL); base != "" && (detail == "" || detail == server.End) {
		detail = fmt.Sprintf("must be the server's URL, without the path of a web page or API endpoint: %q", base)
	}
	if detail != "" {
		fieldErr := settings.FieldError{Field: "url", Detail: detail}
		if c.URL != "" {
			fieldErr.Value = httpclient.QuoteAddress(c.URL)
		}
		errs = append(errs, fieldErr)
	}
	errs = append(errs, settings.Validate(c)...)
	errs = append(errs, httpclient.ValidateParams("params", c.Params, "query", "time", "start", "end", "step")...)
	if _, set := c.Params[lookbackParam]; set {
		errs = append(errs, settings.FieldError{Field: "params." + lookbackParam, Detail: "must not be set here: use max_age"})
	}
	return slices.Concat(errs, c.Access.Validate(), c.validate())
}

var server = httpclient.Address{
	Form:        `must be the URL of a Prometheus server, such as "http://127.0.0.1:9090"`,
	Credentials: "basic_auth, token_file or oauth2",
	End:         `must end with the path: no "?" and no "#"`,
}

// ownPath matches a path that ends with a page or an API path of Prometheus or a compatible
// server. It does not match prefixes that continue after /api/v1, as in the Kubernetes API
// server.
var ownPath = regexp.MustCompile(`^(.*?)/+(api/v1(/+(query(_range|_exemplars)?|(format|parse)_query|series|labels|label/[^/]+/values|metadata|targets(/metadata)?|rules|alerts|status/\w+|write|read|remote_write|push))?|` +
	`((classic|new)/+)?(graph|query|alerts|targets|rules)|classic|vmui|federate|-/+(healthy|ready|reload))/*$`)

// withoutOwnPath removes the path of a web page or an API endpoint from a server's URL. It returns
// "" for any other URL.
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

// Kind is the source kind "prometheus".
var Kind = sources.Kind{Name: "prometheus", Config: func() sources.Config { return new(Config) }}

// Build builds a source.
func (c *Config) Build(name string, env sources.Env) (sources.Source, error) {
	return New(name, c, env.Answers)
}
