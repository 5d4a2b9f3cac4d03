package sources

import (
	"context"
	"time"
)

// Source evaluates queries at one instant. It is safe for concurrent use. The Vector
// is of that instant and no other, each of its series has other labels, and it has
// at least the labels that the query names. It is Released once nobody reads it any
// more.
type Source interface {
	Query(ctx context.Context, query Query, at time.Time) (Vector, error)
}
