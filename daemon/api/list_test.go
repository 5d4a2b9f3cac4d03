package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/api/apitest"
)

// fleetOf returns a daemon with n autoscalers, sorted by name.
func fleetOf(n int) *apitest.Daemon {
	d := &apitest.Daemon{}
	whole := twoAutoscalers().List[0]
	for i := range n {
		whole.Name = fmt.Sprintf("a-%06d", i)
		d.List = append(d.List, whole)
	}
	return d
}

func namesOf(views []api.Autoscaler) []string {
	var names []string
	for _, view := range views {
		names = append(names, view.Name)
	}
	return names
}

// listed requests a page of a list, and returns its names and the continuation token.
func listed(t *testing.T, d *apitest.Daemon, query url.Values) (names []string, more string) {
	t.Helper()
	response := send(t, d, api.ReadOnly, httptest.NewRequest(http.MethodGet, "/api/v1/autoscalers?"+query.Encode(), nil))
	var page struct {
		Status   string
		Data     []api.Autoscaler
		Continue string
	}
	if err := json.Unmarshal(response.Body.Bytes(), &page); err != nil || response.Code != http.StatusOK || page.Status != "success" {
		t.Fatalf("status %d, %v: %s", response.Code, err, response.Body)
	}
	return namesOf(page.Data), page.Continue
}

// TestPages checks that the pages contain every autoscaler once, in order, for any page size.
func TestPages(t *testing.T) {
	d := fleetOf(10)
	for limit := 1; limit <= 11; limit++ {
		var got []string
		query := url.Values{"limit": {fmt.Sprint(limit)}}
		for {
			names, more := listed(t, d, query)
			if len(names) > limit || len(names) == 0 {
				t.Fatalf("limit %d: a page has %d items", limit, len(names))
			}
			got = append(got, names...)
			if more == "" {
				break
			}
			query.Set("continue", more)
		}
		if diff := cmp.Diff(namesOf(d.List), got); diff != "" {
			t.Errorf("limit %d (-want +got):\n%s", limit, diff)
		}
	}
}

func TestBadPages(t *testing.T) {
	for _, query := range []string{"limit=0", "limit=-1", "limit=many", "continue=%3F", "brief=perhaps"} {
		response := send(t, fleetOf(3), api.ReadOnly, httptest.NewRequest(http.MethodGet, "/api/v1/autoscalers?"+query, nil))
		if a := open(t, response); response.Code != http.StatusBadRequest || a.ErrorType != "bad_data" {
			t.Errorf("%s returned %d, %+v; want bad_data", query, response.Code, a)
		}
	}
}

func TestClientReadsPages(t *testing.T) {
	socket := socketPath(t)
	d := fleetOf(api.PageSize + 1)
	serve(t, socket, api.NewHandler(d, prometheus.NewRegistry(), api.Full))
	list, err := api.NewClient(socket).Autoscalers(t.Context())
	if err != nil || !slices.Equal(namesOf(list), namesOf(d.List)) {
		t.Errorf("got %d autoscalers, %v; want all %d", len(list), err, len(d.List))
	}
}
