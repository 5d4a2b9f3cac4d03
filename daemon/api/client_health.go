package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
)

// Health reports whether the daemon's scheduler ticks, and which autoscalers it
// does not evaluate. A daemon that says it is not healthy is no error.
func (c *Client) Health(ctx context.Context) (Health, error) {
	const path = "/-/healthy"
	var health Health
	if c.err != nil {
		return health, c.err
	}
	// Its body is not in an envelope: whoever probes it looks at the status alone.
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+path, http.NoBody)
	if err != nil {
		return health, fmt.Errorf("ask hpad at %q: %w", c.address, err)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return health, c.unreachable(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return health, fmt.Errorf("read hpad's answer to GET %s at %q: %w", path, c.address, err)
	}
	if err := c.strange(response.StatusCode, body); err != nil {
		return health, err
	}
	if response.StatusCode != http.StatusOK && response.StatusCode != http.StatusServiceUnavailable {
		return health, c.garbled(response.StatusCode, http.MethodGet, path, errors.New("its status is neither 200 nor 503"))
	}
	if err := json.Unmarshal(c.cleaned(body), &health); err != nil {
		return health, c.garbled(response.StatusCode, http.MethodGet, path, err)
	}
	return health, nil
}
