package notify

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"text/template"
	"time"

	"github.com/prometheus/common/config"

	"github.com/hpad/hpad/daemon/reason"
	"github.com/hpad/hpad/settings"
	"github.com/hpad/hpad/settings/httpclient"
)

// Config is one receiver: a [notifications.NAME] table.
type Config struct {
	// URL is what is posted to, http or https, without credentials; either it or
	// url_file.
	URL string `toml:"url"`
	// URLFile is a file with the address, where that is a secret, read again for every
	// post.
	URLFile string `toml:"url_file"`
	// Events are what is told: "changed", "refused", "failed", "recovered"; empty means
	// all.
	Events []string `toml:"events"`
	// Reasons are the words of docs/reasons.md that are told, of autoscalers; empty means
	// all.
	Reasons []string `toml:"reasons"`
	// Template is the body, in the language of Go's text/template; empty means a CloudEvent.
	Template string `toml:"template"`
	// ContentType is that of a body by the template.
	ContentType string `toml:"content_type" default:"application/json"`
	// Timeout bounds one post, from sending it to the end of the answer: up to 1m.
	Timeout time.Duration `toml:"timeout" default:"10s" above:"0s" max:"1m" must:"more than 0, and 1m at most"`
	// GiveUpAfter is for how long one is posted again that did not arrive: 1s to 24h.
	GiveUpAfter time.Duration `toml:"give_up_after" default:"10m" min:"1s" max:"24h" must:"from \"1s\" to \"24h\""`
	// Queue is how many may wait for those before them: 1 to 100000. More are lost, and
	// counted.
	Queue int `toml:"queue" default:"1000" min:"1" max:"100000"`
	// Access is how it is reached. Its Headers are no secrets.
	httpclient.Access
	// HeaderFiles are files with the values of headers to be sent, read again for every
	// post.
	HeaderFiles map[string]string `toml:"header_files"`
}

// SetDefaults fills in what was not given.
func (c *Config) SetDefaults() { settings.SetDefaults(c) }

// Validate returns every mistake of a defaulted configuration. Fields are relative to
// the table, as "tls.key_file".
func (c *Config) Validate() []settings.FieldError {
	var mistakes []settings.FieldError
	add := func(field, value, detail string) {
		mistakes = append(mistakes, settings.FieldError{Field: field, Value: value, Detail: detail})
	}
	switch {
	case (c.URL == "") == (c.URLFile == ""):
		add("url", "", "either url or url_file is required: where to post to")
	case c.URL != "":
		if detail := receiver.Check(c.URL); detail != "" { // which may have a secret
			add("url", "", detail)
		}
	}
	for i, event := range c.Events {
		if !slices.Contains(kinds, Kind(event)) {
			add(fmt.Sprintf("events[%d]", i), fmt.Sprintf("%q", event), `must be "changed", "refused", "failed" or "recovered"`)
		}
	}
	known := reasons()
	for i, code := range c.Reasons {
		switch {
		case slices.ContainsFunc(untold, func(one reason.Code) bool { return one.String() == code }):
			add(fmt.Sprintf("reasons[%d]", i), fmt.Sprintf("%q", code), "is no reason that notifications have; a pass that panics is \"Panicked\"")
		case !slices.Contains(known, code):
			add(fmt.Sprintf("reasons[%d]", i), fmt.Sprintf("%q", code), "is none of the reasons in docs/reasons.md, as \"BreakerOpen\"")
		}
	}
	if _, err := c.body(); err != nil {
		add("template", "", err.Error())
	}
	mistakes = append(mistakes, settings.Validate(c)...)
	mistakes = append(mistakes, c.Access.Validate()...)
	return append(mistakes, httpclient.ValidateHeaders("header_files", c.HeaderFiles)...)
}

var receiver = httpclient.Address{
	Form:        `must be an address to post to, as "https://alerts.example.com/hpad"`,
	Credentials: "url_file, basic_auth or token_file",
}

// untold end passes, or stand for one, of which no receiver is told: what led to them is.
var untold = []reason.Code{reason.Late, reason.Quarantined, reason.Abandoned}

// reasons are the words by which autoscalers may be told of.
func reasons() []string {
	var words []string
	for _, code := range reason.All() {
		if !slices.Contains(untold, code) {
			words = append(words, code.String())
		}
	}
	return words
}

// body returns the template, tried with an event of each kind; nil where there is none.
func (c *Config) body() (*template.Template, error) {
	if c.Template == "" {
		return nil, nil
	}
	parsed, err := template.New("template").Option("missingkey=error").Funcs(template.FuncMap{"json": func(value any) (string, error) {
		text, err := json.Marshal(value)
		return string(text), err
	}}).Parse(c.Template)
	if err != nil {
		return nil, err
	}
	for _, kind := range kinds {
		text, err := (&Notifier{config: *c, body: parsed}).encode(&Event{Kind: kind, Time: time.Unix(0, 0).UTC(), Message: `it says "no"`})
		if err != nil {
			return nil, err
		}
		if strings.Contains(c.ContentType, "json") && !json.Valid(text) {
			return nil, fmt.Errorf("makes no valid JSON: {{json .Message}} writes a text with its quotes; it makes %.200s", text)
		}
	}
	return parsed, nil
}

// httpConfig returns the configuration of the HTTP client.
func (c *Config) httpConfig() config.HTTPClientConfig {
	made := c.ClientConfig()
	for name, file := range c.HeaderFiles {
		made.HTTPHeaders.Headers[name] = config.Header{Files: []string{file}}
	}
	return made
}
