// Command hcloud is an HTTP adapter for the Hetzner Cloud API, tested only with an imitation of it: HCLOUD_TOKEN=… hcloud
// 127.0.0.1:8080 GROUPS.json. A target is a group of servers with the label hpad-group=NAME. GROUPS.json maps names to
// the requests that create a server, without its name: {"web": {"server_type": "cx22", "image": "debian-12"}}
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hpad/hpad/targets/adapter"
)

type server struct {
	ID           int64
	Name, Status string
	Created      time.Time
	Labels       map[string]string
	Protection   struct{ Delete bool }
	PrivateNet   []struct{ IP string } `json:"private_net"`
}

type cloud struct {
	api, token string
	groups     map[string]map[string]any
	changing   sync.Mutex
}

func failed(status int, cause any) *adapter.Error {
	codes := map[int]adapter.ErrorCode{401: adapter.Forbidden, 403: adapter.Unavailable, 409: adapter.Held, 423: adapter.Held, 429: adapter.Throttled}
	return &adapter.Error{Code: cmp.Or(codes[status], adapter.Failed), Message: fmt.Sprint(cause)}
}

func (c *cloud) call(ctx context.Context, method, path string, body, into any) *adapter.Error {
	text, _ := json.Marshal(body)                                                                      // it consists of parsed JSON
	request, _ := http.NewRequestWithContext(ctx, method, c.api+path, strings.NewReader(string(text))) // the URL is valid
	request.Header = http.Header{"Authorization": {"Bearer " + c.token}, "Content-Type": {"application/json"}}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return failed(0, err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err = io.ReadAll(io.LimitReader(response.Body, 16<<20))
	if response.StatusCode >= 300 {
		return failed(response.StatusCode, response.Status+": "+string(text[:min(len(text), 500)]))
	} else if err != nil || json.Unmarshal(text, into) != nil {
		return failed(0, fmt.Sprintf("%s %s: %v: invalid response: %.100q", method, path, err, text))
	}
	return nil
}

// list returns the servers of all groups, because one list is enough for all targets.
func (c *cloud) list(ctx context.Context) (found []server, err *adapter.Error) {
	for next := 1; next > 0 && err == nil; {
		var p struct {
			Servers []server
			Meta    struct{ Pagination map[string]int } // next_page is 0 on the last page
		}
		err = c.call(ctx, "GET", fmt.Sprintf("/servers?label_selector=hpad-group&per_page=50&sort=id:asc&page=%d", next), nil, &p)
		found, next = append(found, p.Servers...), p.Meta.Pagination["next_page"]
	}
	return found, err
}

func (c *cloud) target(name string, servers []server) (t adapter.Target, live []server) {
	if c.groups[name] == nil {
		return adapter.Target{Error: &adapter.Error{Code: adapter.NotFound, Message: "no group " + name}}, nil
	}
	t.Instances = []adapter.Instance{}
	sum := int64(0) // the count and the sum of the IDs show each change
	for _, s := range slices.DeleteFunc(slices.Clone(servers), func(s server) bool { return s.Labels["hpad-group"] != name }) {
		i := adapter.Instance{ID: fmt.Sprint(s.ID), Name: s.Name, StartedAt: s.Created, Protected: s.Protection.Delete, Terminating: s.Status == "deleting"}
		if s.Status != "running" {
			i.Phase, i.UnreadyReason = adapter.PhasePending, s.Status
		}
		for _, network := range s.PrivateNet {
			i.Addresses = append(i.Addresses, network.IP)
		}
		if !i.Terminating {
			live, sum = append(live, s), sum+s.ID
		}
		t.Instances = append(t.Instances, i)
	}
	t.Count, t.Version = new(int32(len(live))), fmt.Sprintf("%d-%d", len(live), sum)
	return t, live
}

// change handles "scale" and "remove". Servers that do not run are deleted first, and then the newest.
func (c *cloud) change(ctx context.Context, r *adapter.Request, servers []server) (err *adapter.Error) {
	t, live := c.target(r.Target, servers)
	if t.Error != nil || r.Version != "" && r.Version != t.Version {
		return cmp.Or(t.Error, &adapter.Error{Code: adapter.Conflict, Message: "the version is " + t.Version})
	}
	running := func(s server) int { return strings.Count(s.Status, "running") }
	slices.SortFunc(live, func(a, b server) int { return cmp.Or(running(a)-running(b), cmp.Compare(b.ID, a.ID)) })
	before, count := int32(len(live)), int32(len(live))
	if r.Call == adapter.Remove {
		live = slices.DeleteFunc(live, func(s server) bool { return !slices.Contains(r.Instances, fmt.Sprint(s.ID)) })
		r.To = new(count - int32(len(live)))
	}
	for ; err == nil && count < *r.To; count++ {
		body := maps.Clone(c.groups[r.Target])
		body["name"], body["labels"] = r.Target+"-"+strconv.FormatInt(time.Now().UnixNano(), 36), map[string]string{"hpad-group": r.Target}
		err = c.call(ctx, "POST", "/servers", body, new(any))
	}
	for ; err == nil && count > *r.To; count-- {
		err = c.call(ctx, "DELETE", fmt.Sprintf("/servers/%d", live[before-count].ID), nil, new(any))
	}
	if count += int32(cmp.Compare(before, *r.To)); err != nil && count != before { // the loop has counted the failed change
		err = &adapter.Error{Code: adapter.Partial, Message: err.Message, Reached: &count}
	}
	return err
}

func (c *cloud) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var request adapter.Request
	_ = json.NewDecoder(r.Body).Decode(&request) // an invalid request has no target
	response := adapter.Response{ID: request.ID, Protocol: adapter.Protocol, Name: "hcloud 1.0", Calls: []adapter.Call{adapter.Remove}}
	if request.Call != adapter.Describe {
		c.changing.Lock()
		defer c.changing.Unlock()
		servers, err := c.list(r.Context())
		response = adapter.Response{ID: request.ID, Error: err, Targets: map[string]adapter.Target{}}
		for _, name := range request.Targets {
			response.Targets[name], _ = c.target(name, servers)
		}
		if err == nil && request.Call != adapter.Snapshot {
			response.Error = c.change(r.Context(), &request, servers)
		}
	}
	_ = json.NewEncoder(w).Encode(response) // hpad reports a lost response
}

func main() {
	c := &cloud{api: cmp.Or(os.Getenv("HCLOUD_ENDPOINT"), "https://api.hetzner.cloud/v1"), token: os.Getenv("HCLOUD_TOKEN")}
	if text, err := os.ReadFile(os.Args[2]); err != nil || json.Unmarshal(text, &c.groups) != nil {
		panic(fmt.Sprint(os.Args[2], " must contain a JSON object: ", err))
	}
	panic((&http.Server{Addr: os.Args[1], Handler: c, ReadHeaderTimeout: time.Minute}).ListenAndServe())
}
