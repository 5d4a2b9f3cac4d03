package embedded

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/common/model"
	"go.yaml.in/yaml/v2"

	"github.com/hpad/hpad/settings"
	"github.com/hpad/hpad/settings/httpclient"
)

const (
	// maxListed limits the endpoints of one element of scrape. Each takes about 100 KiB of memory.
	maxListed = 2000
	// maxListFiles limits the files of one element of scrape.
	maxListFiles = 1000
	// maxList limits the size of a list in bytes.
	maxList = 8 << 20
)

// list is the last valid version of a list of endpoints.
type list struct {
	endpoints []endpoint
	// stamp detects changes of a file. invalid is the error of its content, which is not parsed again.
	stamp   httpclient.Stamp
	invalid error
}

// lists reads the lists of one Scrape, from files or a server.
type lists struct {
	scrape *Scrape
	client *http.Client
	// last contains the lists by path or URL.
	last map[string]list
}

// read returns the endpoints of all lists, and the problems of lists that cannot be used. Their last
// valid versions remain in use.
func (l *lists) read(ctx context.Context) ([]endpoint, []error) {
	names, problems := l.names()
	next, all := make(map[string]list, len(names)), []endpoint(nil)
	for _, name := range names {
		found, err := l.readOne(ctx, name)
		if err != nil {
			problems = append(problems, err)
		}
		next[name] = found
		if all = append(all, found.endpoints...); len(all) > maxListed {
			return l.endpoints(), append(problems, fmt.Errorf("the lists contain more than %d endpoints: the last valid lists remain in use", maxListed))
		}
	}
	l.last = next
	return all, problems
}

func (l *lists) endpoints() (all []endpoint) {
	for _, name := range slices.Sorted(maps.Keys(l.last)) {
		all = append(all, l.last[name].endpoints...)
	}
	return all
}

// names returns the paths of the files, or the URL. If a pattern matches no file, the names include the
// files that it has matched before: a missing directory must not remove all endpoints.
func (l *lists) names() (names []string, problems []error) {
	if l.scrape.HTTPSD != nil {
		return []string{l.scrape.HTTPSD.URL}, nil
	}
	for _, pattern := range l.scrape.FileSD {
		found, _ := filepath.Glob(pattern) // the configuration has valid patterns
		if len(found) == 0 && !strings.ContainsAny(pattern, `*?[\`) {
			found = []string{pattern} // its error is that of the system
		}
		if len(found) == 0 {
			problems = append(problems, fmt.Errorf("file_sd %q matches no file", pattern))
			for name := range l.last {
				if matches, _ := filepath.Match(pattern, name); matches {
					found = append(found, name)
				}
			}
		}
		names = append(names, found...)
	}
	slices.Sort(names)
	names = slices.Compact(names)
	if len(names) > maxListFiles {
		problems = append(problems, fmt.Errorf("file_sd matches %d files: only the first %d are used", len(names), maxListFiles))
		names = names[:maxListFiles]
	}
	return names, problems
}

// readOne returns the last valid version of a list, and the error of reading it now.
func (l *lists) readOne(ctx context.Context, name string) (list, error) {
	last := l.last[name]
	var body bytes.Buffer
	var stamp httpclient.Stamp
	what := fmt.Sprintf("file_sd %q", name)
	err := error(nil)
	if l.scrape.HTTPSD == nil {
		if stamp = httpclient.StampFiles(name)[0]; stamp == last.stamp {
			return last, last.invalid
		}
		err = readFile(name, &body)
	} else {
		address, _, _ := strings.Cut(name, "?")
		what = fmt.Sprintf("http_sd %q", address)
		err = l.request(ctx, name, &body)
	}
	if err != nil {
		return last, fmt.Errorf("%s: %w", what, err)
	}
	found, err := parseList(body.Bytes(), l.scrape)
	if err != nil {
		err = fmt.Errorf("%s: %w", what, err)
		return list{last.endpoints, stamp, err}, err
	}
	return list{endpoints: found, stamp: stamp}, nil
}

// readFile reads a regular file. Other files, such as pipes, could block.
func readFile(path string, body *bytes.Buffer) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return errors.New("is not a regular file")
	}
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	return readBody(file, maxList, body)
}

func (l *lists) request(ctx context.Context, address string, body *bytes.Buffer) error {
	header := http.Header{
		"Accept":                                {"application/json"},
		"X-Prometheus-Refresh-Interval-Seconds": {strconv.FormatFloat(l.scrape.HTTPSD.RefreshInterval.Seconds(), 'f', -1, 64)},
	}
	contentType, err := page{l.client, address, header, lookupTimeout, maxList}.fetch(ctx, body)
	if err == nil && !strings.HasPrefix(contentType, "application/json") {
		return fmt.Errorf("the content type is %q, not application/json", contentType)
	}
	return err
}

// group is an element of a list.
type group struct {
	Targets []string          `yaml:"targets"`
	Labels  map[string]string `yaml:"labels"`
}

// parseList returns the endpoints of a list in YAML or JSON, which is also YAML.
func parseList(text []byte, s *Scrape) ([]endpoint, error) {
	var groups []group
	if err := yaml.UnmarshalStrict(text, &groups); err != nil {
		if several, ok := errors.AsType[*yaml.TypeError](err); ok {
			return nil, errors.New("invalid list: " + several.Errors[0])
		}
		return nil, err
	}
	if groups == nil {
		return nil, errors.New("contains no list; a list without endpoints is []")
	}
	endpoints := []endpoint{}
	for _, group := range groups {
		for _, address := range group.Targets {
			e, err := listedEndpoint(s, address, group.Labels)
			if err != nil {
				return nil, fmt.Errorf("target %q: %w", address, err)
			}
			if endpoints = append(endpoints, e); len(endpoints) > maxListed {
				return nil, fmt.Errorf("contains more than %d targets", maxListed)
			}
		}
	}
	return endpoints, nil
}

// paramPrefix is the prefix of labels that are parameters of the endpoint's URL.
const paramPrefix = "__param_"

// listedEndpoint returns the endpoint for a target of a list and the labels of its group. As in
// Prometheus, these labels can replace job, instance, the scheme and the path.
func listedEndpoint(s *Scrape, address string, group map[string]string) (endpoint, error) {
	const form = `must be host:port, such as "127.0.0.1:9100"`
	if detail := settings.CheckHostPort(address, form); detail != "" && !settings.ValidHost(address) {
		return endpoint{}, errors.New(detail)
	}
	scheme, path := cmp.Or(group[model.SchemeLabel], s.Scheme), cmp.Or(group[model.MetricsPathLabel], s.Path)
	if scheme != "http" && scheme != "https" {
		return endpoint{}, fmt.Errorf("%s must be http or https, not %q", model.SchemeLabel, scheme)
	}
	if _, err := url.ParseRequestURI(path); err != nil || !strings.HasPrefix(path, "/") {
		return endpoint{}, fmt.Errorf(`%s must be a path such as "/metrics", not %q`, model.MetricsPathLabel, path)
	}
	set, params := map[string]string{labelJob: s.Job, labelInstance: address}, url.Values{}
	for name, value := range group {
		param, isParam := strings.CutPrefix(name, paramPrefix)
		switch {
		case isParam:
			params.Set(param, value)
		case strings.HasPrefix(name, model.ReservedLabelPrefix):
		case !model.UTF8Validation.IsValidLabelName(name), !model.LabelValue(value).IsValid():
			return endpoint{}, fmt.Errorf("label %q is invalid: the name must not be empty, and the name and the value must be UTF-8", name)
		case value != "":
			set[name] = value
		}
	}
	maps.Copy(set, s.Labels)
	separator := "?"
	if strings.Contains(path, separator) {
		separator = "&"
	}
	if len(params) > 0 {
		path += separator + params.Encode()
	}
	return endpointAt(scheme+"://"+address+path, set), nil
}
