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

// Ager is a Source whose Check depends on the MaxAge of its queries. Ages is called for
// each of them that has one, before Check.
type Ager interface {
	Ages(maxAge time.Duration)
}

// Lookbacker is a Source with a lookback of its own. Lookback returns the maximum age
// of a sample for queries without a MaxAge; 0 if it is unknown.
type Lookbacker interface {
	Lookback() time.Duration
}
