package api_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/policy"
)

func TestVerifyHistory(t *testing.T) {
	d := withHistory()
	d.Verified = api.Verification{
		Engine: 1, Checked: 9, Identical: 5, Different: 2, NotVerifiable: 2,
		Differences: []api.Difference{
			{Autoscaler: "checkout", Time: noon, Fields: []api.DifferentField{{Field: "desired_replicas", Recorded: "5", Now: "6"}}},
			{Autoscaler: "checkout", Time: noon.Add(time.Minute), Error: "checksum does not match"},
		},
	}
	socket := socketPath(t)
	serve(t, socket, api.NewHandler(d, prometheus.NewRegistry(), api.Full))
	client := api.NewClient(socket)
	for _, name := range []string{"", "checkout", "gone"} { // "gone" was removed
		got, err := api.Get[api.Verification](t.Context(), client, api.PathOf(policy.Scope{Autoscaler: name}, "history", "verify"), api.Period{From: noon, To: noon.Add(time.Hour)})
		if diff := cmp.Diff(d.Verified, got); err != nil || diff != "" {
			t.Errorf("verification of %q: %v (-want +got):\n%s", name, err, diff)
		}
	}
	got, err := api.Get[api.Verification](t.Context(), client, api.PathOf(policy.Scope{Autoscaler: "käse/1"}, "history", "verify"), nil)
	if diff := cmp.Diff(api.Verification{Engine: 1, Differences: []api.Difference{}}, got); err != nil || diff != "" {
		t.Errorf("verification without entries: %v (-want +got):\n%s", err, diff)
	}
	if _, err := api.Get[api.Verification](t.Context(), client, api.PathOf(policy.Scope{Autoscaler: "none"}, "history", "verify"), nil); !errors.Is(err, api.ErrNotFound) {
		t.Errorf("verification of an unknown autoscaler: %v", err)
	}
	for _, query := range []string{"history/verify", "history/verify?from=never", "autoscalers/checkout/history/verify?to=1"} {
		send(t, d, api.Full, httptest.NewRequest(http.MethodGet, "/api/v1/"+query, nil)) // checks the response against the OpenAPI description
		if response := send(t, d, api.ReadOnly, httptest.NewRequest(http.MethodGet, "/api/v1/"+query, nil)); response.Code != http.StatusForbidden {
			t.Errorf("status without write access = %d for %s, want 403", response.Code, query)
		}
	}
	d.HistoryErr = errors.New("no")
	if response := send(t, d, api.Full, httptest.NewRequest(http.MethodGet, "/api/v1/history/verify", nil)); response.Code != http.StatusInternalServerError {
		t.Errorf("status with an unreadable store = %d", response.Code)
	}
}
