// Package secret reads secrets from files, and keeps their values so that hpad can remove them from
// everything that it shows, wherever they occur.
package secret

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

const (
	// maxFile is the maximum size of a file with a secret in bytes.
	maxFile = 1 << 20
	// maxKept is the maximum number of kept values. A secret that changes, such as a token, replaces
	// the oldest value.
	maxKept = 1000
	// shortest is the minimum length of a kept value in bytes. Shorter values are parts of words.
	shortest = 8
)

// Read returns the content of a file with a secret without surrounding white space, and keeps it. The content may be empty. An error names the path.
func Read(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = file.Close() }()
	content, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	switch {
	case err != nil:
		return "", err
	case len(content) > maxFile:
		return "", fmt.Errorf("read %s: larger than %d bytes, so it is not a file with a secret", path, maxFile)
	}
	value := strings.TrimSpace(string(content))
	Keep(value)
	return value, nil
}

// Files reads secrets for HTTP clients. It is the secret manager of package config of
// prometheus/common: a reference is the path of a file, which is read for each request.
type Files struct{}

// Fetch returns the secret in the file at path, as [Read] does.
func (Files) Fetch(_ context.Context, path string) (string, error) { return Read(path) }

// Mark replaces a secret.
const Mark = "<redacted>"

// kept contains the values in the order of Keep. replacer is nil until the first value.
var kept struct {
	sync.Mutex
	values   []string
	replacer atomic.Pointer[strings.Replacer]
}

// Hide replaces each kept value in a text by Mark. It is safe for concurrent use.
func Hide(text string) string {
	if replacer := kept.replacer.Load(); replacer != nil {
		return replacer.Replace(text)
	}
	return text
}

// Keep marks a value as secret until hpad ends. It ignores values that can also be names: values
// that are shorter than eight bytes or that contain only lower-case letters and "-", "_" and ".",
// and the paths and addresses of services. It is safe for concurrent use.
func Keep(value string) {
	if !isDistinct(value) {
		return
	}
	kept.Lock()
	defer kept.Unlock()
	if slices.Contains(kept.values, value) {
		return
	}
	kept.values = append(kept.values, value)
	kept.values = kept.values[max(0, len(kept.values)-maxKept):]
	kept.replacer.Store(replacer(kept.values))
}

// replacer replaces the longest value that matches, because a value can contain another one. It also
// replaces the form that a value has in a URL.
func replacer(values []string) *strings.Replacer {
	forms := make([]string, 0, 2*len(values))
	for _, value := range values {
		forms = append(forms, value, url.QueryEscape(value))
	}
	slices.SortFunc(forms, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	pairs := make([]string, 0, 2*len(forms))
	for _, form := range forms {
		pairs = append(pairs, form, Mark)
	}
	return strings.NewReplacer(pairs...)
}

func isDistinct(value string) bool {
	address, err := url.Parse(value)
	switch {
	case len(value) < shortest || strings.HasPrefix(value, "/"):
		return false
	case err == nil && address.Host != "" && address.User == nil && address.RawQuery == "":
		return false
	}
	return strings.Trim(value, "abcdefghijklmnopqrstuvwxyz-_.") != ""
}
