package embedded

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/hpad/hpad/sources"
	"github.com/hpad/hpad/targets"
)

// Kind is the kind of sources that scrape by themselves.
var Kind = sources.Kind{Name: "embedded", Config: func() sources.Config { return new(Config) }}

// Build makes a source of that name.
func (c *Config) Build(name string, env sources.Env) (sources.Source, error) {
	options := Options{
		Dir:     filepath.Join(env.StateDir, Kind.Name, name),
		Samples: env.Samples, Answers: env.Answers,
		Discover: func(ctx context.Context, fleet, target string) ([]Endpoint, error) {
			reading, err := env.Discover(ctx, fleet, target)
			return endpointsOf(reading), err
		},
	}
	if env.Clock != nil {
		options.Clock = env.Clock
	}
	return New(name, c, options)
}

// endpointsOf returns the instances of a target that can be scraped.
func endpointsOf(reading targets.Reading) []Endpoint {
	if reading.Locations == nil {
		return nil
	}
	endpoints := make([]Endpoint, 0, len(reading.Instances))
	for i, instance := range reading.Instances {
		if instance.Deleting {
			continue
		}
		location := reading.Locations.At(i)
		endpoints = append(endpoints, Endpoint{
			ID: instance.ID, Addresses: location.Addresses, Ports: location.Ports, Labels: location.Labels,
		})
	}
	return endpoints
}

// Scrapes returns what the source scrapes.
func (c *Config) Scrapes() []sources.Scrape {
	scrapes := make([]sources.Scrape, len(c.Scrape))
	for i, s := range c.Scrape {
		scrapes[i] = sources.Scrape{Field: fmt.Sprintf("scrape[%d]", i), Fleet: s.Fleet, Target: s.Target}
	}
	return scrapes
}

// ScrapeInterval returns the shortest interval in which one of the jobs is scraped,
// or any where none of them is.
func (c *Config) ScrapeInterval(ofJob func(job string) bool) time.Duration {
	var ofAny, shortest time.Duration
	shorter := func(a, b time.Duration) time.Duration {
		if a == 0 {
			return b
		}
		return min(a, b)
	}
	for _, s := range c.Scrape {
		ofAny = shorter(ofAny, s.Interval)
		if ofJob(s.Job) {
			shortest = shorter(shortest, s.Interval)
		}
	}
	if shortest == 0 {
		return ofAny
	}
	return shortest
}
