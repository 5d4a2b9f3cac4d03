package embedded

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"
)

// maxBody bounds the uncompressed response to one scrape.
const maxBody = 64 << 20

// maxQuoted bounds how much of a response is quoted in an error.
const maxQuoted = 200

// acceptHeader prefers OpenMetrics to the older text format.
const acceptHeader = "application/openmetrics-text;version=1.0.0;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=1.0.0;q=0.3,text/plain;version=0.0.4;q=0.2,*/*;q=0.1"

var gzipReaders = sync.Pool{New: func() any { return new(gzip.Reader) }}

// newClient builds the client of a source. It ignores the environment's proxy,
// as a Prometheus server does, and leaves compression to fetch, so that the
// bound on a response holds for what comes out.
func newClient() *http.Client {
	return &http.Client{Transport: &http.Transport{
		DisableCompression:  true,
		MaxIdleConnsPerHost: 1,
		IdleConnTimeout:     5 * time.Minute,
	}}
}

// fetch reads an endpoint into body and returns the content type.
func fetch(ctx context.Context, client *http.Client, address string, timeout time.Duration, body *bytes.Buffer) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("no complete answer within %s", timeout))
	defer cancel()
	contentType, err := get(ctx, client, address, timeout, body)
	if err != nil && ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	return contentType, err
}

func get(ctx context.Context, client *http.Client, address string, timeout time.Duration, body *bytes.Buffer) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return "", withoutURL(err)
	}
	request.Header.Set("Accept", acceptHeader)
	request.Header.Set("Accept-Encoding", "gzip")
	request.Header.Set("User-Agent", "hpad")
	request.Header.Set("X-Prometheus-Scrape-Timeout-Seconds", strconv.FormatFloat(timeout.Seconds(), 'f', -1, 64))
	response, err := client.Do(request)
	if err != nil {
		return "", withoutURL(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return "", refusal(response)
	}
	return response.Header.Get("Content-Type"), readBody(response, body)
}

// withoutURL returns an error without the URL, whose query may hold a secret.
func withoutURL(err error) error {
	if failure, ok := errors.AsType[*url.Error](err); ok {
		return failure.Err
	}
	return err
}

func refusal(response *http.Response) error {
	quoted, err := io.ReadAll(io.LimitReader(response.Body, maxQuoted))
	if text := strings.TrimSpace(string(quoted)); err == nil && text != "" {
		return fmt.Errorf("endpoint answered %s: %q", response.Status, text)
	}
	return fmt.Errorf("endpoint answered %s", response.Status)
}

func readBody(response *http.Response, body *bytes.Buffer) error {
	var reader io.Reader = response.Body
	if response.Header.Get("Content-Encoding") == "gzip" {
		unzip := gzipReaders.Get().(*gzip.Reader)
		defer gzipReaders.Put(unzip)
		if err := unzip.Reset(response.Body); err != nil {
			return fmt.Errorf("answer says it is gzip: %w", err)
		}
		reader = unzip
	}
	n, err := body.ReadFrom(io.LimitReader(reader, maxBody+1))
	if err != nil {
		return fmt.Errorf("read answer: %w", err)
	}
	if n > maxBody {
		return fmt.Errorf("answer is longer than %d MiB", maxBody>>20)
	}
	return nil
}
