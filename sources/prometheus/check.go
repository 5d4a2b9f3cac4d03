package prometheus

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/hpad/hpad/sources"
)

// Check evaluates a query and reads the server's version. It returns a sentence about the
// version, or an error if the server cannot be queried.
func (s *Source) Check(ctx context.Context) ([]string, error) {
	vector, err := s.Query(ctx, sources.Query{Text: "vector(1)"}, time.Time{})
	if err != nil {
		return nil, err
	}
	vector.Release()
	version, err := s.version(ctx)
	if err != nil && ctx.Err() != nil {
		return nil, fmt.Errorf("source %q: query the version of %q: %w", s.name, s.address, err)
	}
	switch {
	case err != nil:
		return []string{fmt.Sprintf("server at %q responds to queries but does not return its version: %v", s.address, err)}, nil
	case version == "": // the server was built without the project's linker flags
		return []string{fmt.Sprintf("server at %q responds to queries; its version is unknown", s.address)}, nil
	}
	return []string{fmt.Sprintf("server at %q responds to queries; its version is %s", s.address, shorten(version, maxShownAnswer))}, nil
}

func (s *Source) version(ctx context.Context) (version string, err error) {
	err = s.request(ctx, func(ctx context.Context) error {
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
			return fmt.Errorf("response is not from the Prometheus API: %s", errorText(start))
		}
		version = answer.Data.Version
		return nil
	})
	return version, err
}
