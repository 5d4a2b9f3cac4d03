package cluster

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/policy"
)

// viewed is a store that shows two members, each of which owns a part, the second one in a
// later term at each view but for the first.
type viewed struct {
	Coordinator
	addresses map[string]string
	moves     bool
	views     uint64
}

func (v *viewed) View(context.Context) (View, error) {
	view := View{Members: map[string]Member{}, Shards: map[string]Ownership{"prod~": {Configuration: "2"}}}
	term := uint64(1)
	if v.moves {
		term += v.views
	}
	v.views++
	for i, name := range []string{"a", "b"} {
		view.Members[name] = Member{Name: name, Address: v.addresses[name]}
		view.Shards[fmt.Sprintf("prod~%d-2", i+1)] = Ownership{Owner: name, Last: name, Term: []uint64{1, term}[i]}
	}
	return view, nil
}

// TestResumeOfParts resumes a divided fleet: a member on which it is not paused is none that
// refuses, and whose part was another's meanwhile was not reached.
func TestResumeOfParts(t *testing.T) {
	c, err := config.Parse("hpad.toml", fmt.Appendf(nil, shared, 1, 9))
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		answer string
		moves  bool
		want   string
	}{
		"not paused there": {answer: `{"status":"error","errorType":"not_paused","error":"fleet prod: not paused"}`},
		"refused there": {
			answer: `{"status":"error","errorType":"refused","error":"no part of fleet prod is run here now"}`,
			want:   "member b: no part of fleet prod is run here now",
		},
		"taken over meanwhile": {
			answer: `{"status":"error","errorType":"not_paused","error":"fleet prod: not paused"}`, moves: true,
			want: "part 2-2 of fleet \"prod\" was taken over meanwhile",
		},
	} {
		t.Run(name, func(t *testing.T) {
			store := &viewed{addresses: map[string]string{}, moves: test.moves}
			for member, answer := range map[string]string{"a": `{"status":"success","data":{"reason":"sale"}}`, "b": test.answer} {
				server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Content-Type", "application/json")
					if strings.Contains(answer, "error") {
						w.WriteHeader(http.StatusConflict)
					}
					_, _ = w.Write([]byte(answer))
				}))
				t.Cleanup(server.Close)
				store.addresses[member] = server.URL
			}
			m := New(Options{
				Coordinator: store, Member: Member{Name: "me"}, TTL: actWait,
				Peer: func(address string) *api.Client { return api.NewServerClient(api.Server{URL: address}) },
			})
			p := divide(c, 0, layout{"prod": 2})
			m.parts.Store(&p)
			pause, err := m.Whole().Resume(t.Context(), policy.Scope{Fleet: "prod"}, "alice")
			if pause.Reason != "sale" {
				t.Errorf("the pause that ended is %+v", pause)
			}
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("the error is %v, want %q", err, test.want)
			}
		})
	}
}
