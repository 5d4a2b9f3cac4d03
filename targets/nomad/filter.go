package nomad

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
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
