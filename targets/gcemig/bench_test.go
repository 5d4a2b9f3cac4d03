package gcemig

import (
	"fmt"
	"net/http/httptest"
	"testing"

	"github.com/hpad/hpad/targets/targettest"
)

// BenchmarkSnapshot reads all of a project's groups, of three instances each, in
// rounds in which nothing happens.
func BenchmarkSnapshot(b *testing.B) {
	for _, groups := range []int{1000, 5000} {
		b.Run(fmt.Sprintf("groups=%d", groups), func(b *testing.B) {
			imitation, refs := many(b, groups, false)
			replay := &targettest.Replay{Handler: imitation}
			server := httptest.NewServer(replay)
			b.Cleanup(server.Close)
			config := testConfig(b, imitation)
			config.Endpoint = server.URL + "/compute/v1/"
			config.ReadsPerSecond = 10_000
			f := openFleet(b, config, &targettest.Store{})
			readAll(b, f, refs)
			replay.Rounds(b, 3*groups, func() { readAll(b, f, refs) })
		})
	}
}
