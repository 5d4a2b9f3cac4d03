package nomad

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/hashicorp/nomad/api"

	"github.com/hpad/hpad/targets"
)

// maxFiltered is the number of jobs that the filter of a list may name; for more jobs,
// everything in the namespace is read. A filter is part of the URL: with longestLiteral,
// the longest one stays below 8 kB, the limit of many proxies.
const (
	maxFiltered    = 20
	longestLiteral = 300
)

// Complete, lost and replaced allocations, and deployments that ended, are filtered out.
const (
	livingAllocs      = `ClientStatus != "complete" and ClientStatus != "failed" and ClientStatus != "lost"`
	presentAllocs     = `ClientStatus != "complete" and ClientStatus != "lost" and (ClientStatus != "failed" or DesiredStatus == "run" and NextAllocation == "")`
	activeDeployments = `Status != "successful" and Status != "failed" and Status != "cancelled"`
)

// literal returns a string literal of Nomad's filters. It reports false if the text has no
// literal, or one of more than longestLiteral bytes in a URL. Filters (go-bexpr) end a
// quoted literal at the next quote, also after a backslash, and parse a quoted literal that
// begins with a slash as a JSON pointer.
func literal(text string) (string, bool) {
	written := strconv.Quote(text)
	if written != `"`+text+`"` || strings.HasPrefix(text, "/") {
		written = "`" + text + "`"
		if !strconv.CanBackquote(text) {
			return "", false
		}
	}
	return written, len(url.QueryEscape(written)) <= longestLiteral
}

// unnamed reports whether no filter can name a job.
func unnamed(job string) bool {
	_, ok := literal(job)
	return !ok
}

// jobFilter returns a filter for jobs by the name of the field with their ID. It returns "",
// which lists all, if there are too many jobs or no filter can name one of them.
func jobFilter(field string, jobs []string) string {
	if len(jobs) > maxFiltered || slices.ContainsFunc(jobs, unnamed) {
		return ""
	}
	terms := make([]string, len(jobs))
	for i, job := range jobs {
		written, _ := literal(job)
		terms[i] = field + " == " + written
	}
	return strings.Join(terms, " or ")
}

// both joins two filters, each of which may be empty.
func both(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return "(" + a + ") and (" + b + ")"
}

// jobsPage is the number of elements of a page of all lists except that of allocations: some
// 6 MB of jobs. Each page has the timeout of a call.
const jobsPage = 10_000

// headers are the headers of a response. A missing header is zero.
type headers struct {
	// index is the index of the last change of the list.
	index uint64
	// leader means that the server that responded knows the leader.
	leader bool
	// next is the token of the next page; empty on the last page.
	next string
}

// headersKey is the key of a context's *headers.
type headersKey struct{}

func headersOf(header http.Header) headers {
	index, _ := strconv.ParseUint(header.Get("X-Nomad-Index"), 10, 64) // 0 if it is missing
	return headers{index: index, leader: header.Get("X-Nomad-KnownLeader") == "true", next: header.Get("X-Nomad-NextToken")}
}

// list is a list of the API.
type list struct {
	path, filter string
	// params are further parameters; it may be nil.
	params map[string]string
	// size is the number of elements of a page; 0 requests all in one response.
	size int
}

// lenient are the options for responses: checking for duplicate names costs a lot, and the
// output of tasks may be invalid UTF-8.
var lenient = []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}

// lenientJSON is lenient for one value.
var lenientJSON = json.JoinOptions(lenient...)

// errLeaderless rejects a stale response: the server may have restarted and know
// nothing yet.
var errLeaderless = errors.New("the server that answered knows no leader, so that its answer may be older than any bound")

// fetch sends a request of the API and passes the body of the response to read.
func (s *session) fetch(ctx context.Context, at scope, l list, read func(body io.Reader) error) (headers, error) {
	var h headers
	ctx, cancel := targets.Bounded(context.WithValue(ctx, headersKey{}, &h), s.config.Timeout)
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

// readPage reads the page of a list that starts at a token; empty for the first page. It
// passes each element to take as it arrives. The element is valid until take returns, but
// its own pointers, slices and maps may be retained.
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
		decoder := jsontext.NewDecoder(body, lenient...)
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

// readPages reads a list page by page, as readPage does. It returns the headers of the last
// page. Elements that it passed to take before an error are valid.
func readPages[T any](ctx context.Context, s *session, at scope, l list, take func(*T)) (headers, error) {
	h, err := readPage(ctx, s, at, l, "", take)
	for err == nil && h.next != "" {
		h, err = readPage(ctx, s, at, l, h.next, take)
	}
	return h, err
}
