package api

import (
	"maps"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// Routes returns the methods of every path in the format of the OpenAPI description.
func Routes() map[string][]string {
	paths := map[string][]string{}
	for pattern, answers := range routes(nil, prometheus.NewRegistry(), Full) {
		paths[strings.ReplaceAll(strings.TrimSuffix(pattern, "{$}"), "...}", "}")] = slices.Sorted(maps.Keys(answers))
	}
	return paths
}

// ErrorTypes lists the error types that the server writes.
var ErrorTypes = []ErrorType{
	ErrorBadData, ErrorForbidden, ErrorNotFound, ErrorMethod, ErrorTooLarge, ErrorMediaType, ErrorTooMany, ErrorRefused, ErrorUnknownOutcome, ErrorNotPaused, ErrorReload, ErrorUnavailable, ErrorUnstored, ErrorInternal,
}

// ShownDecision is the JSON form of a decision.
type ShownDecision = shownDecision

// PageSize is the maximum number of autoscalers per response.
const PageSize = pageSize
