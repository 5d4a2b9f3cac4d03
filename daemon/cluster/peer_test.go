package cluster

import (
	"testing"
	"time"

	"github.com/hpad/hpad/daemon/api"
)

// TestOutdatedText checks that the age from which a status has a note is two sync periods, but not less
// than the age that a list of another member can have.
func TestOutdatedText(t *testing.T) {
	ahead := time.Minute
	for _, test := range []struct {
		period      float64
		age         time.Duration
		offset      *time.Duration
		unevaluated bool
		want        bool
	}{
		{1, 6 * time.Second, nil, false, false},
		{1, 11 * time.Second, nil, false, true},
		{15, 29 * time.Second, nil, false, false},
		{15, 31 * time.Second, nil, false, true},
		{300, 9 * time.Minute, nil, false, false},
		{300, 11 * time.Minute, nil, false, true},
		{15, 31 * time.Second, nil, true, false},
		{15, 29*time.Second - ahead, &ahead, false, false},
		{15, 31*time.Second - ahead, &ahead, false, true},
	} {
		a := api.Autoscaler{SyncPeriodSeconds: test.period}
		a.Evaluation.Last, a.Evaluation.Unevaluated = time.Now().Add(-test.age), test.unevaluated
		p := &peer{name: "b", offset: test.offset}
		if text := p.outdatedText(&a); (text != "") != test.want {
			t.Errorf("period %v s, age %s, offset %v: %q, want a note: %t", test.period, test.age, test.offset, text, test.want)
		}
	}
}

// TestEqualNames checks the note about autoscalers with the same name in the own fleets of other hosts.
func TestEqualNames(t *testing.T) {
	c := newIdle(time.Second)
	c.options.Member.Name, c.options.Peer = "a", func(string) *api.Client { return api.NewServerClient(api.Server{}) }
	c.view = View{Members: map[string]Member{"a": {Address: "http://a"}, "b": {Address: "http://b"}, "c": {Address: "http://c"}, "d": {Address: "http://d"}}}
	v := &clusterView{c, true}
	peers := v.peers()
	peers[0].list, peers[1].list = []api.Autoscaler{{Name: "web"}}, []api.Autoscaler{{Name: "web"}, {Name: "worker"}}
	for _, test := range []struct {
		name string
		from lister
		want string
	}{
		{"web", c.own, "only the autoscaler on a is shown; other hosts have an autoscaler with the same name: b, c"},
		{"web", peers[0], "only the autoscaler on b is shown; other hosts have an autoscaler with the same name: c"},
		{"worker", peers[1], ""},
		{"batch", c.own, ""},
	} {
		if a := v.noted(api.Autoscaler{Name: test.name}, test.from); a.Evaluation.Error != test.want {
			t.Errorf("note of %s = %q, want %q", test.name, a.Evaluation.Error, test.want)
		}
	}
}
