package nomad

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/hpad/hpad/daemon/cluster"
	"github.com/hpad/hpad/daemon/cluster/clustertest"
	nomadfleet "github.com/hpad/hpad/targets/nomad"
)

func TestContract(t *testing.T) {
	f := newFake(t)
	clustertest.Run(t, func(t *testing.T) (cluster.Coordinator, func()) {
		var cut atomic.Bool
		way := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if cut.Load() {
				panic(http.ErrAbortHandler)
			}
			f.serve(w, r)
		}))
		t.Cleanup(way.Close)
		c, err := New(Options{Cluster: "test", Path: "hpad", Agent: nomadfleet.Config{Address: way.URL}})
		if err != nil {
			t.Fatal(err)
		}
		return c, func() { cut.Store(true) }
	})
}
