package docker

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/client"

	"github.com/hpad/hpad/targets"
)

// TestLogs checks the output of containers with and without a terminal.
func TestLogs(t *testing.T) {
	output := map[string]string{"plain": "one\ntwo\n", "short": "1", "streams": "\x01\x00\x00\x00\x00\x00\x00\x04one\n\x02\x00\x00\x00\x00\x00\x00\x04two\n"}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Api-Version", "1.43")
		if _, path, _ := strings.Cut(r.URL.Path, "/containers/"); path != "" {
			if r.URL.Query().Get("tail") != "7" || r.URL.Query().Get("follow") != "1" {
				t.Errorf("the request is %s", r.URL)
			}
			if text, ok := output[strings.TrimSuffix(path, "/logs")]; ok {
				_, _ = io.WriteString(w, text)
				return
			}
			http.Error(w, `{"message":"No such container"}`, http.StatusNotFound)
		}
	}))
	defer server.Close()
	config := &Config{Host: "tcp://" + server.Listener.Addr().String()}
	config.SetDefaults()
	for id, want := range map[string]string{"plain": "one\ntwo\n", "short": "1", "streams": "one\ntwo\n", "missing": ""} {
		var got strings.Builder
		err := WriteLogs(t.Context(), config, targets.LogQuery{Lines: 7, Follow: true}, &got, func(ctx context.Context, c *client.Client, options container.LogsOptions) (io.ReadCloser, error) {
			return c.ContainerLogs(ctx, id, options)
		})
		if got.String() != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v", id, got.String(), err)
		}
	}
}
