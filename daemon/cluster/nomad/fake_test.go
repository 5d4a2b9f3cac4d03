package nomad

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/hashicorp/nomad/api"

	nomadfleet "github.com/hpad/hpad/targets/nomad"
)

type fate int

const (
	arrives fate = iota
	lost
	unanswered
	late
	silent
	// outdated calls read the variables as they were before the last write.
	outdated
)

type fake struct {
	server *httptest.Server

	mu    sync.Mutex
	index uint64
	// changed is the index of the last change. before contains the variables before that change.
	changed   uint64
	variables map[string]*api.Variable
	before    map[string]*api.Variable
	fate      func(r *http.Request) fate
	held      []func()
}

func newFake(t *testing.T) *fake {
	f := &fake{variables: map[string]*api.Variable{}, index: 10}
	f.server = httptest.NewServer(http.HandlerFunc(f.serve))
	t.Cleanup(f.server.Close)
	return f
}

func (f *fake) connect(t *testing.T) *Coordinator {
	c, err := New(Options{Cluster: "test", Path: "hpad", Agent: nomadfleet.Config{Address: f.server.URL}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func (f *fake) meet(fate func(r *http.Request) fate) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fate = fate
}

func (f *fake) arrive() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, call := range f.held {
		call()
	}
	f.held = nil
}

func (f *fake) serve(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	fated := arrives
	if f.fate != nil {
		fated = f.fate(r)
	}
	call, err := f.call(r, fated == outdated)
	if err != nil {
		panic(http.ErrAbortHandler) // the client disconnected while it sent the request
	}
	switch fated {
	case lost:
		panic(http.ErrAbortHandler)
	case late:
		f.held = append(f.held, func() { call() })
		panic(http.ErrAbortHandler)
	}
	status, index, answer := call()
	if fated == silent {
		f.mu.Unlock()
		<-r.Context().Done()
		f.mu.Lock()
	}
	if fated == silent || fated == unanswered {
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("X-Nomad-Index", strconv.FormatUint(index, 10))
	w.Header().Set("X-Nomad-LastContact", "0")
	w.Header().Set("X-Nomad-KnownLeader", "true")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(answer)
}

func (f *fake) call(r *http.Request, outdated bool) (call func() (status int, index uint64, answer any), err error) {
	path, one := strings.CutPrefix(r.URL.Path, "/v1/var/")
	compared, _ := strconv.ParseUint(r.URL.Query().Get("cas"), 10, 64)
	var sent api.Variable
	if r.Method == http.MethodPut {
		if err := json.NewDecoder(r.Body).Decode(&sent); err != nil {
			return nil, err
		}
	}
	prefix := r.URL.Query().Get("prefix")
	return func() (int, uint64, any) {
		there, index := f.variables, f.changed
		if outdated && f.before != nil {
			there, index = f.before, f.changed-1
		}
		switch {
		case !one:
			listed := []*api.VariableMetadata{}
			for _, name := range slices.Sorted(maps.Keys(there)) {
				if strings.HasPrefix(name, prefix) {
					listed = append(listed, there[name].Metadata())
				}
			}
			return http.StatusOK, index, listed
		case r.Method == http.MethodGet && there[path] == nil:
			return http.StatusNotFound, index, nil
		case r.Method == http.MethodGet:
			return http.StatusOK, there[path].ModifyIndex, there[path]
		}
		return f.change(path, r.Method == http.MethodDelete, compared, sent.Items)
	}, nil
}

func (f *fake) change(path string, remove bool, compared uint64, items api.VariableItems) (status int, index uint64, answer any) {
	f.index++
	was := f.variables[path]
	if was == nil {
		was = &api.Variable{Path: path}
	}
	if was.ModifyIndex != compared {
		return http.StatusConflict, was.ModifyIndex, was
	}
	f.before, f.changed = maps.Clone(f.variables), f.index
	if remove {
		delete(f.variables, path)
		return http.StatusNoContent, f.index, nil
	}
	now := &api.Variable{Path: path, CreateIndex: was.CreateIndex, ModifyIndex: f.index, Items: items}
	if was.ModifyIndex == 0 {
		now.CreateIndex = f.index
	}
	f.variables[path] = now
	return http.StatusOK, f.index, now
}
