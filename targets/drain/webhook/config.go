package webhook

import (
	"time"

	"github.com/hpad/hpad/settings"

	"github.com/prometheus/common/config"

	"github.com/hpad/hpad/settings/httpclient"
)

// Config is who is called, and how.
type Config struct {
	// URL is what is posted to, http or https, without credentials.
	URL string `toml:"url"`
	// Timeout bounds one call, from sending it to the end of the answer: up to 50s.
	Timeout time.Duration `toml:"timeout" default:"10s" above:"0s" max:"50s" must:"more than 0, and 50s at most"`
	// Access is how it is reached. Its Headers are no secrets.
	httpclient.Access
	// HeaderFiles are files with the values of headers to be sent, read again for
	// every call.
	HeaderFiles map[string]string `toml:"header_files"`
}

// SetDefaults fills in what was not given.
func (c *Config) SetDefaults() { settings.SetDefaults(c) }

// Validate returns every mistake of a defaulted configuration. Fields are relative to
// the table, as "tls.key_file".
func (c *Config) Validate() []settings.FieldError {
	var mistakes []settings.FieldError
	if detail := hook.Check(c.URL); detail != "" { // which may have a secret
		mistakes = append(mistakes, settings.FieldError{Field: "url", Detail: detail})
	}
	mistakes = append(mistakes, settings.Validate(c)...)
	mistakes = append(mistakes, c.Access.Validate()...)
	return append(mistakes, httpclient.ValidateHeaders("header_files", c.HeaderFiles)...)
}

var hook = httpclient.Address{
	Form:        `must be an address to post to, as "https://drain.example.com/hpad"`,
	Credentials: "basic_auth or token_file",
}

// httpConfig returns the configuration of the HTTP client.
func (c *Config) httpConfig() config.HTTPClientConfig {
	made := c.ClientConfig()
	for name, file := range c.HeaderFiles {
		made.HTTPHeaders.Headers[name] = config.Header{Files: []string{file}}
	}
	return made
}
