package prometheus

import (
	"context"
	"fmt"
	"time"

	"github.com/hpad/hpad/sources"
)

// Check evaluates a query. It returns a sentence about the server, or an error if the server cannot
// be queried.
func (s *Source) Check(ctx context.Context) ([]string, error) {
	vector, err := s.Query(ctx, sources.Query{Text: "vector(1)"}, time.Time{})
	if err != nil {
		return nil, err
	}
	vector.Release()
	return []string{fmt.Sprintf("server at %q responds to queries", s.address)}, nil
}
