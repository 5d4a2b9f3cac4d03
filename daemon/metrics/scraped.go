package metrics

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// scraped collects series of what there is when somebody scrapes.
type scraped[T any] struct {
	descs []*prometheus.Desc
	// view returns what there is; nil, and without series, until it is set.
	view atomic.Pointer[func() T]
	send func(now T, metrics chan<- prometheus.Metric)
}

func (s *scraped[T]) Describe(descs chan<- *prometheus.Desc) {
	for _, desc := range s.descs {
		descs <- desc
	}
}

func (s *scraped[T]) Collect(metrics chan<- prometheus.Metric) {
	if view := s.view.Load(); view != nil {
		s.send((*view)(), metrics)
	}
}
