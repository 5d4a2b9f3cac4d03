package nomad

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/hashicorp/nomad/api"

	"github.com/hpad/hpad/targets"
)

// longestFilter is the maximum length of a job filter in a URL, in bytes. It keeps URLs below 8 kB,
// the limit of many proxies.
const longestFilter = 7000

// The filters exclude complete, lost and replaced allocations, and finished deployments.
const (
	livingAllocs      = `ClientStatus != "complete" and ClientStatus != "failed" and ClientStatus != "lost"`
	presentAllocs     = `ClientStatus != "complete" and ClientStatus != "lost" and (ClientStatus != "failed" or DesiredStatus == "run" and NextAllocation == "")`
	activeDeployments = `Status != "successful" and Status != "failed" and Status != "cancelled"`
)

// filterFirst returns a filter for the first values of a field, as many as fit in the given number of
// bytes of a URL, and their number. The filter is one regular expression, because Nomad needs 2 µs
// for each comparison of an element. Nomad (go-bexpr) ends a string literal at the next quote, even
// after a backslash, so the expression is a raw literal.
func filterFirst(field string, values []string, longest int) (filter string, n int) {
	var patterns []string
	for length := 0; n < len(values); n++ {
		one := pattern(values[n])
		if length += len(url.QueryEscape(one + "|")); length > longest {
			break
		}
		patterns = append(patterns, one)
	}
	if n == 0 {
		return "", 0
	}
	slices.Sort(patterns) // Go's regular expressions are faster if common prefixes are adjacent
	return field + " matches `^(?:" + strings.Join(patterns, "|") + ")$`", n
}

// filterAll returns a filter for the values of a field; "" if there are none, or not all fit.
func filterAll(field string, values []string, longest int) string {
	filter, n := filterFirst(field, values, longest)
	if n < len(values) {
		return ""
	}
	return filter
}

// pattern returns a regular expression for a value, which can be part of a raw string literal.
func pattern(value string) string {
	var text strings.Builder
	for _, r := range value {
		if one := string(r); regexp.QuoteMeta(one) == one && strconv.CanBackquote(one) {
			text.WriteString(one)
		} else {
			fmt.Fprintf(&text, `\x{%x}`, r)
		}
	}
	return text.String()
}

func both(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return "(" + a + ") and (" + b + ")"
}

// jobsPage is the page size of all lists except the allocation list: about 6 MB of jobs. The
// timeout of a call applies to each page.
const jobsPage = 10_000

type headers struct {
	index uint64
	// leader reports whether the server has contact with the leader.
	leader bool
	// next is the token of the next page; "" on the last page.
	next string
}

type headersKey struct{}

func headersOf(header http.Header) headers {
	index, _ := strconv.ParseUint(header.Get("X-Nomad-Index"), 10, 64) // 0 if it is missing
	return headers{index: index, leader: header.Get("X-Nomad-KnownLeader") == "true", next: header.Get("X-Nomad-NextToken")}
}

type list struct {
	path, filter string
	params       map[string]string
	// size is the page size; 0 requests all elements in one response.
	size int
}

// decodeOptions are the decoding options for responses. They allow duplicate names, which are
// expensive to detect, and invalid UTF-8, which task output may contain.
var decodeOptions = []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}

var jsonOptions = json.JoinOptions(decodeOptions...)

// errLeaderless is the error for a stale response from a server that may have just restarted.
var errLeaderless = errors.New("the server has no contact with the leader, so its response may be too old")

// fetch sends a request and passes the body of the response to read.
func (s *session) fetch(ctx context.Context, at scope, l list, read func(body io.Reader) error) (headers, error) {
	var h headers
	ctx, cancel := targets.WithCallTimeout(context.WithValue(ctx, headersKey{}, &h), s.config.Timeout)
	defer cancel()
	options := (&api.QueryOptions{
		Region: at.region, Namespace: at.namespace, AllowStale: s.config.Stale,
		AuthToken: s.token, Params: l.params, Filter: l.filter,
	}).WithContext(ctx)
	body, err := s.client.Raw().Response(l.path, options)
	if err != nil {
		return h, explain(ctx, err)
	}
	defer func() { _ = body.Close() }()
	if s.config.Stale && !h.leader {
		return h, errLeaderless
	}
	return h, explain(ctx, read(body))
}

// readPage reads the page of a list at a token; "" is the first page. It passes each element to
// take. An element is valid until take returns; its pointers, slices and maps may be retained.
func readPage[T any](ctx context.Context, s *session, at scope, l list, token string, take func(*T)) (headers, error) {
	if l.size > 0 {
		params := map[string]string{"per_page": strconv.Itoa(l.size)}
		if token != "" {
			params["next_token"] = token
		}
		maps.Copy(params, l.params)
		l.params = params
	}
	return s.fetch(ctx, at, l, func(body io.Reader) error {
		decoder := jsontext.NewDecoder(body, decodeOptions...)
		if decoder.PeekKind() != '[' { // null is an empty list, anything else an error
			return json.UnmarshalDecode(decoder, &[]struct{}{})
		}
		if _, err := decoder.ReadToken(); err != nil {
			return err
		}
		element := new(T)
		for decoder.PeekKind() != ']' {
			*element = *new(T)
			if err := json.UnmarshalDecode(decoder, element); err != nil {
				return err
			}
			take(element)
		}
		_, err := decoder.ReadToken()
		return err
	})
}

// readPages reads all pages of a list. It returns the headers of the last page. After an error,
// the elements that were passed to take are valid.
func readPages[T any](ctx context.Context, s *session, at scope, l list, take func(*T)) (headers, error) {
	h, err := readPage(ctx, s, at, l, "", take)
	for err == nil && h.next != "" {
		h, err = readPage(ctx, s, at, l, h.next, take)
	}
	return h, err
}
