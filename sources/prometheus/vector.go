package prometheus

import (
	"errors"
	"fmt"

	"github.com/prometheus/common/model"

	"github.com/hpad/hpad/sources"
)

// toVector turns the result of an instant query into a vector. A result that
// states no number is an error, so that none is ever taken for zero.
func toVector(value model.Value) (sources.Vector, error) {
	switch value := value.(type) {
	case model.Vector:
		return fromVector(value)
	case *model.Scalar:
		if value == nil || value.Timestamp == 0 {
			return sources.Vector{}, errors.New("answer is a scalar without a value")
		}
		return sources.Vector{Series: []sources.Series{{
			Value: float64(value.Value),
			At:    value.Timestamp.Time().UTC(),
		}}}, nil
	case model.Matrix:
		return sources.Vector{}, &sources.QueryError{Err: errors.New("result is a range (matrix), want one value for each series; " +
			"take the brackets off, or put a function such as rate() or max_over_time() around them")}
	default:
		return sources.Vector{}, fmt.Errorf("result is a %T, want a vector or a scalar", value)
	}
}

func fromVector(samples model.Vector) (sources.Vector, error) {
	series := make([]sources.Series, len(samples))
	for i, sample := range samples {
		switch {
		case sample == nil, sample.Histogram == nil && sample.Timestamp == 0:
			return sources.Vector{}, fmt.Errorf("answer has a series without a value (number %d of %d)", i+1, len(samples))
		case sample.Histogram != nil:
			return sources.Vector{}, &sources.QueryError{Err: fmt.Errorf("series %s is a native histogram, want a number; use histogram_quantile(), histogram_sum() or histogram_count()",
				shorten(sample.Metric.String(), maxShownQuery))}
		}
		series[i] = sources.Series{
			Labels: labels(sample.Metric),
			Value:  float64(sample.Value),
			At:     sample.Timestamp.Time().UTC(),
		}
	}
	return sources.Vector{Series: series}, nil
}

func labels(metric model.Metric) map[string]string {
	if len(metric) == 0 {
		return nil
	}
	result := make(map[string]string, len(metric))
	for name, value := range metric {
		result[string(name)] = string(value)
	}
	return result
}
