package prometheus

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hpad/hpad/sources"
)

// The first Prometheus that heeds lookback_delta.
const (
	lookbackMajor = 2
	lookbackMinor = 43
)

// Ages has Check say whether the max_age of a query takes effect. It is not safe for
// concurrent use with Check.
func (s *Source) Ages(maxAge time.Duration) { s.ages[maxAge] = true }

// Check evaluates a query and reads the server's version. It returns sentences about
// the version and whether max_age takes effect; an error means that the server cannot
// be queried.
func (s *Source) Check(ctx context.Context) ([]string, error) {
	vector, err := s.Query(ctx, sources.Query{Text: "vector(1)"}, time.Time{})
	if err != nil {
		return nil, err
	}
	vector.Release()
	version, err := s.version(ctx)
	if err != nil && ctx.Err() != nil {
		return nil, fmt.Errorf("source %q: ask %q for its version: %w", s.name, s.address, err)
	}
	var sentences []string
	switch {
	case err != nil:
		sentences = append(sentences, fmt.Sprintf("server at %q answers queries but does not tell its version: %v", s.address, err))
	case version == "": // as one that was built without the project's own flags
		sentences = append(sentences, fmt.Sprintf("server at %q answers queries; its version is not known to itself", s.address))
	default:
		sentences = append(sentences, fmt.Sprintf("server at %q answers queries; its version is %s", s.address, shorten(version, maxShownAnswer)))
	}
	if doubt := doubtLookback(version); doubt != "" {
		for _, age := range slices.Sorted(maps.Keys(s.ages)) {
			sentences = append(sentences, fmt.Sprintf("max_age = %q %s: it needs Prometheus %d.%d or newer; upgrade the server or start it with --query.lookback-delta=%s",
				age, doubt, lookbackMajor, lookbackMinor, age))
		}
	}
	return sentences, nil
}

// version reads the server's version, which may be empty.
func (s *Source) version(ctx context.Context) (version string, err error) {
	err = s.ask(ctx, func(ctx context.Context) error {
		response, err := s.get(ctx, s.config.at(buildPath))
		if err != nil {
			return err
		}
		defer func() { _ = response.Body.Close() }()
		b, _ := spare.Get().(*buffers)
		defer b.release()
		start, err := b.open(response)
		if err != nil {
			return err
		}
		var answer struct {
			Status string `json:"status"`
			Data   struct {
				Version string `json:"version"`
			} `json:"data"`
		}
		if err := json.NewDecoder(io.LimitReader(b.ahead, maxErrorBytes)).Decode(&answer); err != nil || answer.Status != "success" {
			return fmt.Errorf("answer is not what the Prometheus API answers: %s", errorText(start))
		}
		version = answer.Data.Version
		return nil
	})
	return version, err
}

// doubtLookback returns why lookback_delta may not take effect on a version of the
// server, such as "2.42.0+ds"; "" when it does.
func doubtLookback(version string) string {
	parts := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	if len(parts) < 2 {
		return "may have no effect"
	}
	major, err := strconv.Atoi(parts[0])
	if err != nil {
		return "may have no effect"
	}
	minor, err := strconv.Atoi(parts[1])
	if err != nil {
		return "may have no effect"
	}
	if major < lookbackMajor || major == lookbackMajor && minor < lookbackMinor {
		return "has no effect"
	}
	return ""
}
