package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/hpad/hpad/daemon/redact"
	"github.com/hpad/hpad/targets"
)

// EndpointGroup contains one ready instance in Prometheus's format for HTTP service discovery.
type EndpointGroup struct {
	// Targets contains the address.
	Targets []string `json:"targets"`
	// Labels contains autoscaler, fleet, instance_id and node.
	Labels map[string]string `json:"labels"`
}

// ErrUnread means that the target has not been read successfully since the daemon started.
var ErrUnread = errors.New("the instances are unknown")

// endpoints writes the ready instances of a target, without the envelope. If a read fails, it
// writes an error, because clients then keep their last list; an empty list would replace it.
func (h handlers) endpoints(w http.ResponseWriter, r *http.Request, _ none) {
	groups, err := h.daemon.Endpoints(r.Context(), targets.Ref{Fleet: r.PathValue("fleet"), Name: r.PathValue("target")})
	rejected, is := errors.AsType[*Error](err)
	switch {
	case err == nil:
		encoded, _ := json.Marshal(append([]EndpointGroup{}, groups...)) // all fields are strings
		writeEncoded(w, http.StatusOK, json.RawMessage(encoded), redact.JSON)
	case is:
		writeRejection(w, rejected)
	case errors.Is(err, ErrUnknown):
		writeError(w, ErrorNotFound, err.Error())
	default:
		writeError(w, ErrorUnavailable, err.Error())
	}
}

// Endpoints returns the ready instances of an autoscaler's target.
func (c *Client) Endpoints(ctx context.Context, ref targets.Ref) (groups []EndpointGroup, err error) {
	path := Path(append([]string{"sd", ref.Fleet}, strings.Split(ref.Name, "/")...)...)
	err = c.send(ctx, http.MethodGet, path, nil, readResponseTimeout, func(r *http.Response) error {
		if r.StatusCode != http.StatusOK {
			_, _, err := decodeResponse[struct{}](c, r)
			return err
		}
		if err := json.NewDecoder(io.LimitReader(r.Body, maxResponse)).Decode(&groups); err != nil {
			return c.unexpected(r, fmt.Errorf("decode the endpoints: %w", err))
		}
		return nil
	})
	return groups, err
}
