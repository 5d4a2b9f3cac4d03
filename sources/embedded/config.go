package embedded

import (
	"cmp"
	"fmt"
	"maps"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/model"

	"github.com/hpad/hpad/settings"
	"github.com/hpad/hpad/settings/httpclient"
	"github.com/hpad/hpad/sources"
)

// defaultScrapeTimeout is the default timeout of a scrape if the interval is longer.
const defaultScrapeTimeout = 10 * time.Second

// minInterval is the minimum interval between two scrapes of an endpoint.
const minInterval = 100 * time.Millisecond

// Config is one [sources.NAME] table of kind "embedded".
type Config struct {
	// Dir is the directory for the stored samples, which only one source may use. If it is
	// empty, a subdirectory of state_dir is used.
	Dir string `toml:"dir"`
	// Retention is the time for which samples are stored: at least 1 minute; 0 means 6h. Samples
	// are deleted in blocks, so some are deleted slightly later.
	Retention time.Duration `toml:"retention" default:"6h" min:"1m"`
	// Timeout limits one query; 0 means 30s.
	Timeout time.Duration `toml:"timeout" default:"30s" above:"0s"`
	// LookbackDelta is the maximum age of a sample that an instant selector returns; 0 means
	// 5m.
	LookbackDelta time.Duration `toml:"lookback_delta" default:"5m" min:"1ms"`
	// MaxSamples limits the samples in memory for one query; 0 means 5000000.
	MaxSamples int `toml:"max_samples" default:"5000000" min:"1"`
	// Scrape lists the endpoints to scrape.
	Scrape []Scrape `toml:"scrape"`
}

// Scrape is a set of endpoints with the same settings. They are Addresses, the instances of a fleet's
// target, or listed by FileSD or HTTPSD.
type Scrape struct {
	// Job is the value of the label "job" of every series. If it is empty, Target is used, "static"
	// with Addresses, "file_sd" or "http_sd".
	Job string `toml:"job"`
	// Addresses lists the endpoints as host:port, which is also the value of the label
	// "instance".
	Addresses []string `toml:"addresses" excludes:"fleet target"`
	// Fleet is the name of the fleet that contains the target.
	Fleet string `toml:"fleet" requires:"target"`
	// Target is the canonical name within Fleet of the target whose instances are scraped.
	Target string `toml:"target" requires:"fleet"`
	// FileSD lists files with lists of endpoints, in the JSON or YAML format of Prometheus. A name can be
	// a pattern such as "/etc/hpad/targets/*.yml". The files are read again after a change.
	FileSD []string `toml:"file_sd" excludes:"addresses fleet target"`
	// HTTPSD is a server that returns a list of endpoints in the JSON format of Prometheus; without this
	// table, none is queried.
	HTTPSD *HTTPSD `toml:"http_sd" excludes:"addresses fleet target file_sd"`
	// PortLabel selects a port of each instance. If it is empty, the only port is used.
	PortLabel string `toml:"port_label" requires:"fleet"`
	// Scheme is "http" or "https"; empty means "http".
	Scheme string `toml:"scheme" default:"http" values:"http https"`
	// Path is the part of the URL after the port, with an optional query; empty means "/metrics".
	Path string `toml:"path" default:"/metrics"`
	// Interval is the scrape interval, at least 100ms; 0 means 5s.
	Interval time.Duration `toml:"interval" default:"5s" min:"100ms"`
	// Timeout limits one scrape. It must not be longer than Interval. 0 means Interval or 10s,
	// whichever is shorter.
	Timeout time.Duration `toml:"timeout"`
	// Labels contains labels that are added to every series.
	Labels map[string]string `toml:"labels"`
	// HonorLabels keeps scraped labels whose names equal those that hpad adds, as federation and
	// Pushgateway require. It is not allowed for the instances of a fleet, because they could report
	// samples of other targets.
	HonorLabels bool `toml:"honor_labels" excludes:"fleet"`
	// SampleLimit makes a scrape with more samples fail; 0 means no limit.
	SampleLimit int `toml:"sample_limit" min:"0"`
	// Access contains the credentials and TLS settings for the endpoints.
	httpclient.Access
}

// HTTPSD is a server for discovery.
type HTTPSD struct {
	// URL is the http or https address of the list.
	URL string `toml:"url" required:"the URL of a list of endpoints"`
	// RefreshInterval is the time between two requests, at least 1s; 0 means 1m.
	RefreshInterval time.Duration `toml:"refresh_interval" default:"1m" min:"1s"`
	// Access contains the credentials and TLS settings for the server.
	httpclient.Access
}

var listAddress = httpclient.Address{
	Form:        `must be the URL of a list, such as "http://127.0.0.1:8080/targets"`,
	Credentials: "basic_auth, token_file or oauth2",
}

// The labels that hpad adds to every series. The last three are added only for instances of a
// fleet.
const (
	labelJob        = "job"
	labelInstance   = "instance"
	labelInstanceID = "instance_id"
	labelFleet      = "fleet"
	labelTarget     = "target"
)

var reservedLabels = []string{labelJob, labelInstance, labelInstanceID, labelFleet, labelTarget}

// SetDefaults sets missing values to their defaults.
func (c *Config) SetDefaults() {
	settings.SetDefaults(c)
	for i := range c.Scrape {
		s := &c.Scrape[i]
		job := s.Target
		switch {
		case len(s.Addresses) > 0:
			job = "static"
		case len(s.FileSD) > 0:
			job = "file_sd"
		case s.HTTPSD != nil:
			job = "http_sd"
		}
		s.Job = cmp.Or(s.Job, job)
		s.Timeout = cmp.Or(s.Timeout, min(s.Interval, defaultScrapeTimeout))
	}
}

// Validate returns all errors of a configuration with defaults applied. Field paths are
// relative to the source's table, such as "scrape[0].interval".
func (c *Config) Validate() []settings.FieldError {
	m := settings.FieldErrors(settings.Validate(c))
	seen := map[string]int{}
	for i := range c.Scrape {
		s := &c.Scrape[i]
		field := fmt.Sprintf("scrape[%d]", i)
		s.validate(field+".", &m)
		for _, key := range s.endpointKeys() {
			if first, found := seen[key]; found {
				m.Add(field, "", fmt.Sprintf("has the same job and endpoints as scrape[%d]: set a different job for one of them", first))
				break
			}
			seen[key] = i
		}
	}
	return m
}

func (s *Scrape) validate(field string, m *settings.FieldErrors) {
	s.validateEndpoints(field, m)
	for _, e := range s.Validate() {
		m.Add(field+e.Field, e.Value, e.Detail)
	}
	if _, err := url.ParseRequestURI(s.Path); err != nil || !strings.HasPrefix(s.Path, "/") {
		m.Add(field+"path", strconv.Quote(s.Path), `must be a path such as "/metrics"`)
	}
	if s.Timeout <= 0 || s.Timeout > max(s.Interval, minInterval) {
		m.Add(field+"timeout", s.Timeout.String(), fmt.Sprintf("must be more than 0s and at most the interval, %s", s.Interval))
	}
	for _, name := range slices.Sorted(maps.Keys(s.Labels)) {
		switch {
		case slices.Contains(reservedLabels, name):
			m.Add(field+"labels."+name, strconv.Quote(s.Labels[name]), "is a label that hpad sets; choose another name")
		case strings.HasPrefix(name, model.ReservedLabelPrefix) || !model.UTF8Validation.IsValidLabelName(name):
			m.Add(field+"labels."+name, strconv.Quote(s.Labels[name]), "the name must be UTF-8, not empty, and must not start with __")
		case !model.LabelValue(s.Labels[name]).IsValid():
			m.Add(field+"labels."+name, strconv.Quote(s.Labels[name]), "must be UTF-8")
		}
	}
}

func (s *Scrape) validateEndpoints(field string, m *settings.FieldErrors) {
	if s.Fleet == "" && s.Target == "" && len(s.Addresses) == 0 && len(s.FileSD) == 0 && s.HTTPSD == nil {
		m.Add(strings.TrimSuffix(field, "."), "", "must contain addresses, fleet and target, file_sd or http_sd")
	}
	for i, pattern := range s.FileSD {
		if _, err := filepath.Match(pattern, ""); err != nil || !filepath.IsAbs(pattern) {
			m.Add(fmt.Sprintf("%sfile_sd[%d]", field, i), strconv.Quote(pattern), `must be the absolute path of a file or a pattern, such as "/etc/hpad/targets/*.yml"`)
		}
	}
	if s.HTTPSD != nil {
		if detail := listAddress.Check(s.HTTPSD.URL); s.HTTPSD.URL != "" && detail != "" {
			m.Add(field+"http_sd.url", httpclient.QuoteAddress(s.HTTPSD.URL), detail)
		}
		for _, e := range s.HTTPSD.Validate() {
			m.Add(field+"http_sd."+e.Field, e.Value, e.Detail)
		}
	}
	for i, address := range s.Addresses {
		if detail := settings.CheckHostPort(address, `must be host:port, such as "127.0.0.1:9100"`); detail != "" {
			m.Add(fmt.Sprintf("%saddresses[%d]", field, i), strconv.Quote(address), detail)
		}
	}
}

// endpointKeys returns keys that are equal for two endpoints if their series would be the same.
func (s *Scrape) endpointKeys() []string {
	job := s.Job + "\xff" + fmt.Sprint(s.Labels) + "\xff"
	addresses := slices.Concat(s.Addresses, s.FileSD)
	if s.HTTPSD != nil {
		addresses = append(addresses, s.HTTPSD.URL)
	}
	if len(addresses) == 0 {
		return []string{job + s.Fleet + "\xff" + s.Target + "\xff" + s.PortLabel}
	}
	keys := make([]string, len(addresses))
	for i, address := range addresses {
		keys[i] = job + address
	}
	return keys
}

// Kind is the source kind "embedded".
var Kind = sources.Kind{Name: "embedded", Config: func() sources.Config { return new(Config) }}

// Build builds a source.
func (c *Config) Build(name string, env sources.Env) (sources.Source, error) {
	return New(name, c, env)
}

// Scrapes returns the entries of the scrape table.
func (c *Config) Scrapes() []sources.Scrape {
	scrapes := make([]sources.Scrape, len(c.Scrape))
	for i, s := range c.Scrape {
		scrapes[i] = sources.Scrape{Field: fmt.Sprintf("scrape[%d]", i), Fleet: s.Fleet, Target: s.Target}
	}
	return scrapes
}

// ScrapeInterval returns the shortest interval of the matching jobs, or of all jobs if no job
// matches.
func (c *Config) ScrapeInterval(ofJob func(job string) bool) time.Duration {
	var ofAny, shortest time.Duration
	shorter := func(a, b time.Duration) time.Duration {
		if a == 0 {
			return b
		}
		return min(a, b)
	}
	for _, s := range c.Scrape {
		ofAny = shorter(ofAny, s.Interval)
		if ofJob(s.Job) {
			shortest = shorter(shortest, s.Interval)
		}
	}
	if shortest == 0 {
		return ofAny
	}
	return shortest
}
