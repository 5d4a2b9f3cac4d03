package api_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hpad/hpad/daemon/api"
)

func TestFindHoles(t *testing.T) {
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	const hour = 3600
	every := func(step, from, to int64) (times []int64) { // in seconds before now
		for at := from; at >= to; at -= step {
			times = append(times, now.Unix()-at)
		}
		return times
	}
	for _, test := range []struct {
		name          string
		created, from time.Duration // before now; 0 means unknown
		period        float64
		times         []int64
		want          [][2]int64 // in seconds before now
		warning       string
	}{
		{"complete", 2 * time.Hour, time.Hour, 15, every(15, hour, 0), nil, ""},
		{"period of 1 s", 2 * time.Hour, time.Hour, 1, every(15, hour, 0), nil, ""},
		{"period of 5 min", 2 * time.Hour, time.Hour, 300, every(300, hour, 0), nil, ""},
		{"one missed pass", 2 * time.Hour, time.Hour, 15, append(every(15, hour, 600), every(15, 570, 0)...), nil, ""},
		{
			"takeover", 2 * time.Hour, time.Hour, 15, append(every(15, hour, 600), every(15, 500, 0)...),
			[][2]int64{{600, 500}},
			"no data points from 2026-11-29T11:50:00Z to 2026-11-29T11:51:40Z",
		},
		{"not evaluated now", 2 * time.Hour, time.Hour, 15, every(15, hour, 300), [][2]int64{{300, 0}}, "from 2026-11-29T11:55:00Z to 2026-11-29T12:00:00Z"},
		{"past of a former member", 2 * time.Hour, time.Hour, 15, every(15, 285, 0), [][2]int64{{hour, 285}}, "no data points from 2026-11-29T11:00:00Z"},
		{"new autoscaler", 290 * time.Second, time.Hour, 15, every(15, 285, 0), nil, ""},
		{"unknown creation", 0, time.Hour, 15, every(15, 285, 0), nil, ""},
		{"thinned", 30 * time.Hour, 24 * time.Hour, 15, append(every(300, 24*hour, 7*hour), every(15, 7*hour-300, 0)...), nil, ""},
		{"no points", 2 * time.Hour, time.Hour, 15, nil, [][2]int64{{hour, 0}}, "no data points"},
		{
			"several", 2 * time.Hour, time.Hour, 15, append(append(every(15, hour, 3000), every(15, 2000, 1500)...), every(15, 1300, 0)...),
			[][2]int64{{3000, 2000}, {1505, 1300}},
			"no data points in 2 periods, the longest from 2026-11-29T11:10:00Z",
		},
	} {
		graph, of := api.Graph{Time: test.times}, api.Autoscaler{SyncPeriodSeconds: test.period}
		if test.created > 0 {
			of.Created = now.Add(-test.created)
		}
		warning := graph.FindHoles(&of, now.Add(-test.from), now.Add(time.Minute), now)
		var got [][2]int64
		for _, hole := range graph.Holes {
			got = append(got, [2]int64{now.Unix() - hole.From, now.Unix() - hole.To})
		}
		if !slices.Equal(got, test.want) || !strings.Contains(warning, test.warning) || (warning == "") != (test.want == nil) {
			t.Errorf("%s: holes %v, warning %q, want %v, %q", test.name, got, warning, test.want, test.warning)
		}
	}
}
