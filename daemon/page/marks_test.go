package page_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/api/apitest"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/settings"
)

// TestMarks checks which history entries become marks in the graph.
func TestMarks(t *testing.T) {
	count := func(n int32) *int32 { return &n }
	at := func(second int, one api.Recorded) api.Recorded {
		one.Autoscaler, one.Time = "web", noon.Add(time.Duration(second)*time.Second)
		return one
	}
	d := &world{&apitest.Daemon{List: []api.Autoscaler{named("web")}, Recorded: []api.Recorded{
		at(1, api.Recorded{Written: count(5), Decision: policy.Decision{CurrentReplicas: 3, DesiredReplicas: 5, Write: true}}),
		at(2, api.Recorded{Written: count(4), Decision: policy.Decision{Time: noon, CurrentReplicas: 5, DesiredReplicas: 4, Write: true}}),
		at(3, api.Recorded{Decision: policy.Decision{CurrentReplicas: 4, DesiredReplicas: 4}}),
		at(4, api.Recorded{Decision: policy.Decision{CurrentReplicas: 9, Foreign: &policy.ForeignChange{From: 4}}}),
		at(5, api.Recorded{Written: count(7), Decision: policy.Decision{CurrentReplicas: 9, Command: &policy.Command{Replicas: 7, Author: "alice"}}}),
		at(6, api.Recorded{Events: []policy.Event{{Reason: "Paused", Message: "paused by bob"}, {Reason: api.BoundsChanged, Message: "max 10 to 20"}}}),
		at(7, api.Recorded{Error: "the agent\ndoes not respond"}),
		at(8, api.Recorded{Reload: &settings.Reload{Author: "carol", Changes: []settings.Change{{Key: "max_replicas", Kind: settings.Changed, Before: "5", After: "8"}}}}),
	}}}
	server := serve(t, d, api.ReadOnly)
	type mark struct {
		Time  float64
		Kind  string
		Text  string
		Count *int32
	}
	begin := float64(noon.Unix())
	want := []mark{
		{begin + 2, "down", "5 → 4", count(4)},
		{begin + 4, "foreign", "an external writer changed the count from 4 to 9", count(9)},
		{begin + 5, "person", "alice set the count to 7", count(7)},
		{begin + 6, "pause", "paused by bob", nil},
		{begin + 6, "bounds", "max 10 to 20", nil},
		{begin + 7, "failed", "the agent does not respond", nil},
		{begin + 8, "config", "reload by carol: max_replicas: 5 -> 8", nil},
	}
	status, _, text := get(t, server.URL+"/marks?name=web&from="+url.QueryEscape(noon.Add(2*time.Second).Format(time.RFC3339)))
	var got []mark
	if err := json.Unmarshal([]byte(text), &got); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("marks = %d %v %s", status, err, text)
	}
	if _, _, text := get(t, server.URL+"/marks?name=missing"); strings.TrimSpace(text) != "[]" {
		t.Errorf("marks of an unknown autoscaler = %s", text)
	}
	if status, _, text := get(t, server.URL+"/marks?name=web&from=noon"); status != http.StatusBadRequest {
		t.Errorf("response for from=noon = %d %s", status, text)
	}
}
