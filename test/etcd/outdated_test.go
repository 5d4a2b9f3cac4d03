package etcd

import (
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hpad/hpad/test/etcd/etcdtest"
	"github.com/hpad/hpad/test/internal/members"
)

// TestOutdated checks that another member marks the status of an owner that responds, but whose passes
// wait for the platform. After three periods without a pass, the owner itself reports that it is late.
func TestOutdated(t *testing.T) {
	t.Parallel()
	var blocked atomic.Bool
	s := open(t, etcdtest.Start(t, 1), members.Options{
		SyncPeriod: 5 * time.Second, TTL: 30 * time.Second, // a write may last for a period, and the next tick is skipped
		Watch: func(fleet string, next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if fleet == "alpha" && r.Method != http.MethodGet && blocked.Load() {
					_, _ = io.Copy(io.Discard, r.Body) // otherwise the context does not end with the connection
					<-r.Context().Done()
					return
				}
				next.ServeHTTP(w, r)
			})
		},
	})
	s.Start(2)
	s.Spread()
	owner, other := s.OwnerOf("alpha")
	s.Evaluated(other, "alpha-0")
	note := "member " + owner.Name + " responds, but has not evaluated the autoscaler since "
	shown := func(m *members.Member, command string) (string, bool) {
		output := m.Says(command, "alpha-0")
		return output, strings.Contains(output, note)
	}
	blocked.Store(true)
	s.Worlds["alpha"].Ask(0, 7)
	s.Await("a note in get and describe", func() (string, bool) {
		row, inRow := shown(other, "get")
		text, inText := shown(other, "describe")
		return row + text, inRow && inText
	})
	if output, is := shown(owner, "get"); is {
		t.Errorf("the owner has a note about itself:\n%s", output)
	}
	blocked.Store(false)
	s.Follows("alpha", 0, 7)
	s.Await("a current status", func() (string, bool) {
		output, is := shown(other, "get")
		return output, !is
	})
}
