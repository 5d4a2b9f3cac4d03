// Package http implements a source whose document is the response of an HTTP server.
package http

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/hpad/hpad/settings"
	"github.com/hpad/hpad/settings/httpclient"
	"github.com/hpad/hpad/sources"
	"github.com/hpad/hpad/sources/document"
)

// Config is one [sources.NAME] table of kind "http".
type Config struct {
	// URL is the http or https address of the document, which is read with GET. It must not contain
	// credentials.
	URL string `toml:"url"`
	// Format is the format of the document: "json", "prometheus" (the text format of metrics) or "number".
	Format document.Format `toml:"format" default:"json" values:"json prometheus number"`
	document.Limits
	// Access contains the settings of the connection. Only its Headers may contain secrets.
	httpclient.Access
}

// SetDefaults sets missing values to their defaults.
func (c *Config) SetDefaults() { settings.SetDefaults(c) }

var address = httpclient.Address{
	Form:        `must be the URL of a document, such as "http://127.0.0.1:8080/status"`,
	Credentials: "basic_auth, token_file or oauth2",
}

// Validate returns all errors of a configuration with defaults applied. Field paths are relative to
// the table.
func (c *Config) Validate() []settings.FieldError {
	var errs settings.FieldErrors
	if detail := address.Check(c.URL); detail != "" {
		value := ""
		if c.URL != "" {
			value = httpclient.QuoteAddress(c.URL)
		}
		errs.Add("url", value, detail)
	}
	errs = append(errs, settings.Validate(c)...)
	return append(errs, c.Access.Validate()...)
}

// CheckQuery checks a query, as described in sources.Selector.
func (c *Config) CheckQuery(text string) (selector string, err error) {
	return c.Format.CheckQuery(text)
}

// Kind is the source kind "http".
var Kind = sources.Kind{Name: "http", Config: func() sources.Config { return new(Config) }}

// source reads one document. It is safe for concurrent use.
type source struct {
	*document.Source
	client *http.Client
	config Config
}

// Build builds a source. It reads the TLS files but does not connect. The source uses the proxies from the
// environment (HTTPS_PROXY, NO_PROXY).
func (c *Config) Build(name string, env sources.Env) (sources.Source, error) {
	shown := httpclient.WithoutSecrets(c.URL)
	client, err := c.NewClient(name, nil)
	if err != nil {
		return nil, fmt.Errorf("source %q: prepare connections to %q: %w", name, shown, err)
	}
	s := &source{client: client, config: *c}
	s.Source = document.New(name, shown, c.Format, c.Limits, env.Answers, s.read)
	return s, nil
}

// Close cancels the request in progress and closes idle connections.
func (s *source) Close() error {
	defer s.client.CloseIdleConnections()
	return s.Source.Close()
}

// accepted contains the Accept header for each format.
var accepted = map[document.Format]string{
	document.JSON:       "application/json, */*;q=0.5",
	document.Prometheus: "application/openmetrics-text;version=1.0.0;q=0.9, text/plain;version=0.0.4;q=0.8, */*;q=0.1",
	document.Number:     "text/plain, */*;q=0.5",
}

func (s *source) read(ctx context.Context) (document.Page, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.config.URL, nil)
	if err != nil {
		return document.Page{}, errors.New("the url is invalid")
	}
	request.Header.Set("Accept", accepted[s.config.Format])
	response, err := s.client.Do(request)
	if err != nil {
		return document.Page{}, httpclient.WithoutURL(err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return document.Page{}, explainStatus(response)
	}
	return s.readBody(response)
}

func (s *source) readBody(response *http.Response) (document.Page, error) {
	page := document.Page{Type: response.Header.Get("Content-Type"), Age: ageOf(response.Header)}
	if encoding := response.Header.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		return page, fmt.Errorf("server returned Content-Encoding %q, which was not requested", sources.Shorten(encoding, maxShown))
	}
	limit := int64(s.config.MaxSize)
	var err error
	page.Text, err = io.ReadAll(io.LimitReader(response.Body, limit+1))
	start := fmt.Sprintf("%q", sources.Shorten(string(page.Text), maxShown))
	switch kind, _, _ := mime.ParseMediaType(page.Type); {
	case err != nil && len(page.Text) > 0:
		return page, fmt.Errorf("response is incomplete after %d bytes: %w: %s", len(page.Text), err, start)
	case err != nil:
		return page, err
	case int64(len(page.Text)) > limit:
		return page, fmt.Errorf("response has more than %d bytes (max_size = %q): %s", limit, s.config.MaxSize, start)
	case kind == "text/html" || kind == "application/xhtml+xml":
		return page, fmt.Errorf("server returned a page of type %q instead of a document; check that url is the address of the document: %s", kind, start)
	}
	return page, nil
}

// maxShown limits the text quoted in errors, in characters. maxErrorBytes limits the body of an error
// response.
const (
	maxShown      = 300
	maxErrorBytes = 64 << 10
)

func explainStatus(response *http.Response) error {
	status := strings.TrimSpace(fmt.Sprintf("%d %s", response.StatusCode, http.StatusText(response.StatusCode)))
	if response.StatusCode/100 == 3 {
		return fmt.Errorf("server redirected with %s to %q; set url to the address of the document", status, httpclient.WithoutSecrets(response.Header.Get("Location")))
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, maxErrorBytes))
	if err != nil {
		return fmt.Errorf("server returned %s: %w", status, err)
	}
	err = fmt.Errorf("server returned %s instead of 200 OK: %q", status, cmp.Or(sources.Shorten(string(body), maxShown), "(empty body)"))
	if response.StatusCode == http.StatusUnauthorized || response.StatusCode == http.StatusForbidden {
		err = fmt.Errorf("%w; check the credentials, headers and tls", err)
	}
	return err
}

// ageOf returns the age of a document, which a cache or the server of a file states, or 0.
func ageOf(header http.Header) time.Duration {
	seconds, _ := strconv.ParseUint(header.Get("Age"), 10, 31)
	age := time.Duration(seconds) * time.Second
	modified, err := http.ParseTime(header.Get("Last-Modified"))
	now, dateErr := http.ParseTime(header.Get("Date"))
	if err == nil && dateErr == nil {
		age = max(age, now.Sub(modified))
	}
	return age
}
