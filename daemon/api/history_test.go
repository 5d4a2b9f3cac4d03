package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/api/apitest"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/settings"
	"github.com/hpad/hpad/targets/drain"
)

// recordedAt returns an entry for a successful write, or for a failed write if count is 0.
func recordedAt(name string, at time.Time, count int32) api.Recorded {
	entry := api.Recorded{
		Autoscaler: name, Time: at,
		Decision: policy.Decision{Time: at, Case: policy.CaseMetrics, CurrentReplicas: 2, DesiredReplicas: 7, Write: true},
		Victims:  []drain.Victim{{ID: "i-1", Reason: "oldest"}},
	}
	if count > 0 {
		entry.Written = &count
		entry.Events = []policy.Event{{Kind: policy.NormalEvent, Reason: "SuccessfulRescale", Message: "New size: 7"}}
		return entry
	}
	entry.Error = "scale: no"
	entry.Events = []policy.Event{{Kind: policy.WarningEvent, Reason: "FailedRescale", Message: "scale: no"}}
	return entry
}

// withHistory returns a daemon with three entries of "checkout", one minute apart, and one entry of
// "gone", which is not configured. The last entry of "checkout" is a failed write.
func withHistory() *apitest.Daemon {
	d := twoAutoscalers()
	d.Recorded = []api.Recorded{
		recordedAt("checkout", noon, 5), recordedAt("checkout", noon.Add(time.Minute), 6), recordedAt("checkout", noon.Add(2*time.Minute), 0),
		recordedAt("gone", noon, 3),
	}
	return d
}

func TestHistory(t *testing.T) {
	d := withHistory()
	for _, test := range []struct {
		query string
		want  []api.Recorded
	}{
		{"autoscalers/checkout/history", d.RecordedOf("checkout")},
		{"autoscalers/checkout/history?limit=2", d.RecordedOf("checkout")[1:]},
		{"autoscalers/checkout/history?from=2026-11-21T12:01:00Z", d.RecordedOf("checkout")[1:]},
		{"autoscalers/checkout/history?to=2026-11-21T13:01:00%2B01:00", d.RecordedOf("checkout")[:1]},
		{"autoscalers/checkout/history?from=1795262459.5&to=1795262460.001", d.RecordedOf("checkout")[1:2]},
		{"autoscalers/gone/history", d.RecordedOf("gone")},
		{"history?to=2026-11-21T12:01:00Z", []api.Recorded{d.RecordedOf("checkout")[0], d.RecordedOf("gone")[0]}},
		{"history?limit=1", d.RecordedOf("checkout")[2:]},
		{"history?from=2027-01-01T00:00:00Z", []api.Recorded{}},
		{"autoscalers/k%C3%A4se%2F1/history", []api.Recorded{}},
	} {
		t.Run(test.query, func(t *testing.T) {
			response := send(t, d, api.ReadOnly, httptest.NewRequest(http.MethodGet, "/api/v1/"+test.query, nil))
			var got []api.Recorded
			if err := json.Unmarshal(open(t, response).Data, &got); err != nil {
				t.Fatalf("%v in %s", err, response.Body)
			}
			if diff := cmp.Diff(test.want, got, asShown); diff != "" {
				t.Errorf("history (-want +got):\n%s", diff)
			}
		})
	}
	d.HistoryErr = errors.New("checksum does not match")
	for _, path := range []string{"autoscalers/checkout/history", "autoscalers/checkout/explain?at=0", "history"} {
		response := send(t, d, api.ReadOnly, httptest.NewRequest(http.MethodGet, "/api/v1/"+path, nil))
		if got := open(t, response); response.Code != http.StatusInternalServerError || got.Error != "checksum does not match" {
			t.Errorf("GET %s with a damaged store returned %d, %s", path, response.Code, got.Error)
		}
	}
}

func TestExplainAt(t *testing.T) {
	d := withHistory()
	for _, second := range []int{30, 45} { // reloads are not decisions
		d.Recorded = append(d.Recorded, api.Recorded{Autoscaler: "checkout", Time: noon.Add(time.Duration(second) * time.Second), Reload: &settings.Reload{}})
	}
	d.List[0].Victims = []drain.Victim{{ID: "i-9"}}
	d.List[0].Evaluation.Error = "now"
	for _, test := range []struct {
		at       string
		decided  time.Time
		written  time.Time
		ableTo   string
		wantFail string
	}{
		{"2026-11-21T12:00:59Z", noon, noon, "", ""},
		{"2026-11-21T12:01:00Z", noon.Add(time.Minute), noon.Add(time.Minute), "", ""},
		{"2026-11-22T00:00:00Z", noon.Add(2 * time.Minute), time.Time{}, "FailedRescale", "scale: no"},
	} {
		response := send(t, d, api.ReadOnly, httptest.NewRequest(http.MethodGet, "/api/v1/autoscalers/checkout/explain?at="+test.at, nil))
		var got api.Explanation
		if err := json.Unmarshal(open(t, response).Data, &got); err != nil {
			t.Fatalf("%v in %s", err, response.Body)
		}
		if got.Name != "checkout" || got.Reference != "prod/checkout/api" || got.Decision == nil || !got.Decision.Time.Equal(test.decided) ||
			!got.Status.LastScaleTime.Equal(test.written) || got.Evaluation.Error != test.wantFail || len(got.Victims) != 1 || got.Victims[0].ID != "i-1" {
			t.Errorf("explanation at %s = %+v", test.at, got)
		}
		if (test.ableTo == "") != (len(got.Status.Conditions) == 0) || test.ableTo != "" && got.Status.Conditions[0].Reason != test.ableTo {
			t.Errorf("conditions at %s = %+v", test.at, got.Status.Conditions)
		}
		if got.Inputs != nil { // the current configuration has one metric, the recorded decision had none
			t.Errorf("inputs at %s = %+v, want none, because the metrics differ", test.at, got.Inputs)
		}
	}
}

type scanned struct {
	*apitest.Daemon
	entries, atOnce, most atomic.Int64
	wait                  chan struct{}
}

func (s *scanned) History(ctx context.Context, name string, from, to time.Time, limit int) ([]api.Recorded, error) {
	s.most.Store(max(s.most.Load(), s.atOnce.Add(1)))
	defer s.atOnce.Add(-1)
	if s.wait != nil {
		<-s.wait
	}
	entries, err := s.Daemon.History(ctx, name, from, to, limit)
	s.entries.Add(int64(len(entries)))
	return entries, err
}

// TestHistoryOfChangesIsReadInParts checks that one request for changes reads a limited part of the
// history and returns a continuation token, even if one instant has more entries than a page, and
// that the client follows the token.
func TestHistoryOfChangesIsReadInParts(t *testing.T) {
	d := &scanned{Daemon: twoAutoscalers()}
	for i := range 35_000 {
		entry := api.Recorded{Autoscaler: "checkout", Time: noon.Add(time.Duration(i/1700) * time.Second)}
		if i == 7 || i == 34_000 {
			entry = recordedAt("checkout", entry.Time, int32(i%10+1))
		}
		d.Recorded = append(d.Recorded, entry)
	}
	handler := api.NewHandler(d, prometheus.NewRegistry(), api.Full)
	var found []api.Recorded
	requests, more := 0, ""
	for ; requests == 0 || more != ""; requests++ {
		before := d.entries.Load()
		request := httptest.NewRequest(http.MethodGet, "/api/v1/history?changes=true&continue="+url.QueryEscape(more), nil)
		response := httptest.NewRecorder()
		handler.ServeHTTP(response, request)
		checkResponse(t, request, response)
		var got struct {
			Data     []api.Recorded
			Continue string
		}
		if err := json.Unmarshal(response.Body.Bytes(), &got); err != nil || response.Code != http.StatusOK {
			t.Fatal(response.Code, err)
		}
		if read := d.entries.Load() - before; read > 12_000 {
			t.Errorf("one request read %d entries", read)
		}
		found, more = append(got.Data, found...), got.Continue
	}
	if requests < 3 || len(found) != 2 || *found[0].Written != 8 || *found[1].Written != 1 {
		t.Errorf("%d requests returned %d changes", requests, len(found))
	}
	socket := socketPath(t)
	serve(t, socket, handler)
	query := api.HistoryQuery{Changes: true}
	if whole, err := api.NewClient(socket).History(t.Context(), "", query); err != nil || len(whole) != 2 {
		t.Errorf("the client returned %d changes: %v", len(whole), err)
	}
	query.Limit = 1
	if newest, err := api.NewClient(socket).History(t.Context(), "", query); err != nil || len(newest) != 1 || *newest[0].Written != 1 {
		t.Errorf("the client with limit 1 returned %d changes: %v", len(newest), err)
	}
	if response := send(t, d.Daemon, api.ReadOnly, httptest.NewRequest(http.MethodGet, "/api/v1/history?changes=true&continue=never", nil)); response.Code != http.StatusBadRequest {
		t.Errorf("status with an invalid continuation = %d, want 400", response.Code)
	}
}

// TestHistoryIsReadByFew checks that at most 2 requests read the history concurrently and that
// other requests wait up to 10 seconds.
func TestHistoryIsReadByFew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &scanned{Daemon: withHistory(), wait: make(chan struct{})}
		handler := api.NewHandler(d, prometheus.NewRegistry(), api.ReadOnly)
		var answers [500 + 1]atomic.Int64
		var group sync.WaitGroup
		request := func(path string) {
			group.Go(func() {
				response := httptest.NewRecorder()
				handler.ServeHTTP(response, httptest.NewRequest(http.MethodGet, "/api/v1/"+path, nil))
				answers[response.Code].Add(1)
			})
		}
		for range 10 {
			request("history?changes=true")
			request("autoscalers/checkout/history")
			request("autoscalers/checkout/explain?at=1795262460")
		}
		time.Sleep(time.Minute) // longer than maxHistoryWait
		close(d.wait)
		group.Wait()
		if d.most.Load() != 2 || answers[http.StatusTooManyRequests].Load() != 28 || answers[http.StatusOK].Load() != 2 {
			t.Errorf("%d concurrent reads, %d responses with 429 and %d with 200; want 2, 28 and 2", d.most.Load(), answers[http.StatusTooManyRequests].Load(), answers[http.StatusOK].Load())
		}
		request("history")
		group.Wait()
		if answers[http.StatusOK].Load() != 3 {
			t.Errorf("a later request failed")
		}
	})
}
