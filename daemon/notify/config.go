package notify

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hpad/hpad/daemon/reason"
	"github.com/hpad/hpad/settings"
	"github.com/hpad/hpad/settings/httpclient"
	"github.com/hpad/hpad/settings/secret"
	"github.com/hpad/hpad/settings/template"
)

// Config is one receiver: a [notifications.NAME] table.
type Config struct {
	// URL is the http or https URL of the receiver, without credentials. Either url or url_file is
	// required.
	URL string `toml:"url" excludes:"url_file"`
	// URLFile is a file with the URL, if the URL is a secret. It is read again for each post.
	URLFile string `toml:"url_file"`
	// Events lists the kinds of events to send: "changed", "refused", "failed" or "recovered".
	// Empty means all.
	Events []string `toml:"events"`
	// Reasons lists the reason codes from docs/reasons.md to send, for events of autoscalers. Empty
	// means all.
	Reasons []string `toml:"reasons"`
	// Template is the body, in the language of Go's text/template. Empty means a CloudEvent.
	Template string `toml:"template"`
	// ContentType is the content type of the template's output.
	ContentType string `toml:"content_type" default:"application/json"`
	// Timeout limits one post including the response, up to 1m.
	Timeout time.Duration `toml:"timeout" default:"10s" above:"0s" max:"1m" must:"more than 0, and 1m at most"`
	// GiveUpAfter limits the time during which a failed post is repeated: 1s to 24h.
	GiveUpAfter time.Duration `toml:"give_up_after" default:"10m" min:"1s" max:"24h" must:"from \"1s\" to \"24h\""`
	// Queue is the maximum number of waiting events: 1 to 100000. Further events are dropped and
	// counted.
	Queue int `toml:"queue" default:"1000" min:"1" max:"100000"`
	// Access contains the credentials. Its headers are not secret.
	httpclient.Access
	// HeaderFiles maps names of headers to files with their values, which are read again for each
	// post.
	HeaderFiles map[string]string `toml:"header_files"`
}

// SetDefaults fills in the defaults.
func (c *Config) SetDefaults() { settings.SetDefaults(c) }

// Validate returns all errors in a configuration after SetDefaults. Fields are relative to the
// table, such as "tls.key_file".
func (c *Config) Validate() []settings.FieldError {
	var invalid []settings.FieldError
	add := func(field, value, detail string) {
		invalid = append(invalid, settings.FieldError{Field: field, Value: value, Detail: detail})
	}
	switch {
	case c.URL == "" && c.URLFile == "":
		add("url", "", "either url or url_file is required")
	case c.URL != "":
		if detail := receiver.Check(c.URL); detail != "" { // the error omits the URL, because it can contain a secret
			add("url", "", detail)
		}
	default:
		if address, err := secret.Read(c.URLFile); err == nil { // the daemon can read files that check cannot
			if detail := checkSecret(address); detail != "" {
				add("url_file", fmt.Sprintf("%q", c.URLFile), "the URL in this file "+detail)
			}
		}
	}
	for i, event := range c.Events {
		if !slices.Contains(kinds, Kind(event)) {
			add(fmt.Sprintf("events[%d]", i), fmt.Sprintf("%q", event), `must be "changed", "refused", "failed" or "recovered"`)
		}
	}
	known := reportable()
	for i, code := range c.Reasons {
		switch {
		case slices.ContainsFunc(unsentReasons, func(one reason.Code) bool { return one.String() == code }):
			add(fmt.Sprintf("reasons[%d]", i), fmt.Sprintf("%q", code), "is never sent as the reason of a notification; a panic is sent as \"Panicked\"")
		case !slices.Contains(known, code):
			add(fmt.Sprintf("reasons[%d]", i), fmt.Sprintf("%q", code), "must be a reason from docs/reasons.md, such as \"BreakerOpen\"")
		}
	}
	if _, err := c.body(); err != nil {
		add("template", "", err.Error())
	}
	invalid = append(invalid, settings.Validate(c)...)
	invalid = append(invalid, c.Access.Validate()...)
	return append(invalid, httpclient.ValidateHeaders("header_files", c.HeaderFiles)...)
}

var receiver = httpclient.Address{
	Form:        `must be the URL of a receiver, such as "https://alerts.example.com/hpad"`,
	Credentials: "url_file, basic_auth or token_file",
}

// checkSecret returns the error for the URL in url_file, which may contain credentials, or "" if it is
// valid. The error does not contain the URL.
func checkSecret(address string) string {
	if scheme, rest, ok := strings.Cut(address, "://"); ok {
		end := len(rest)
		if i := strings.IndexAny(rest, "/?#"); i >= 0 {
			end = i
		}
		address = scheme + "://" + rest[strings.LastIndex(rest[:end], "@")+1:]
	}
	return receiver.Check(address)
}

// unsentReasons lists the reasons that are never sent, because hpad sends their causes, such as a
// panic, instead.
var unsentReasons = []reason.Code{reason.Late, reason.Quarantined, reason.Abandoned}

func reportable() []string {
	var words []string
	for _, code := range reason.All() {
		if !slices.Contains(unsentReasons, code) {
			words = append(words, code.String())
		}
	}
	return words
}

// body returns the template, or nil. It tests the template with an event of each
// kind.
func (c *Config) body() (*template.Template, error) {
	if c.Template == "" {
		return nil, nil
	}
	parsed, err := template.Parse(c.Template, map[string]any{"json": func(value any) (string, error) {
		text, err := json.Marshal(value)
		return string(text), err
	}})
	if err != nil {
		return nil, err
	}
	for _, kind := range kinds {
		text, err := (&Notifier{config: *c, body: parsed}).encode(&Event{Kind: kind, Time: time.Unix(0, 0).UTC(), Message: `it says "no"`})
		if err != nil {
			return nil, err
		}
		if strings.Contains(c.ContentType, "json") && !json.Valid(text) {
			return nil, fmt.Errorf("does not produce valid JSON; {{json .Message}} writes a string with quotes; output: %.200s", text)
		}
	}
	return parsed, nil
}
