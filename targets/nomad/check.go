package nomad

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/hashicorp/nomad/api"

	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/cloud"
)

// Check returns the server's version and the capabilities of the token in each namespace that was
// read or where targets are discovered. The error names the missing capabilities. Check does not
// change the platform: it tries to scale to a count that no job can have.
func (f *Fleet) Check(ctx context.Context) ([]string, error) {
	return targets.CallUnlessClosed(ctx, &f.base, "check", f.check)
}

func (f *Fleet) check(ctx context.Context) ([]string, error) {
	session, err := f.open(ctx)
	if err != nil {
		return nil, err
	}
	at := scope{region: f.config.Region}
	var leader string
	if err := session.get(ctx, at, "/v1/status/leader", nil, "", &leader); err != nil {
		return nil, fmt.Errorf("query %s for the leader: %w", f.config.Address, readError(err))
	}
	found := []string{session.version(ctx, at)}
	var missing []error
	jobs, dispatches := map[scope][]string{}, map[scope]bool{}
	for _, t := range f.base.Known() {
		jobs[t.scope()] = append(jobs[t.scope()], t.Job)
		dispatches[t.scope()] = dispatches[t.scope()] || f.cache.parameterized(t.jobKey())
	}
	for _, at := range f.scopes() {
		have, lack, err := session.capabilities(ctx, at, dispatches[at])
		if err != nil {
			return found, err
		}
		if len(lack) > 0 {
			err := fmt.Errorf("%w: the token lacks %s in %v", targets.ErrForbidden, strings.Join(lack, ", "), at)
			if names := slices.Compact(slices.Sorted(slices.Values(jobs[at]))); len(names) > 0 {
				err = fmt.Errorf("%w, for %s", err, cloud.Quoted(names))
			}
			missing = append(missing, err)
			continue
		}
		found = append(found, fmt.Sprintf("has the capabilities %s in %v", strings.Join(have, ", "), at))
	}
	var nodes []*api.NodeListStub
	if err := readError(session.get(ctx, at, "/v1/nodes", map[string]string{"per_page": "1"}, "", &nodes)); errors.Is(err, targets.ErrForbidden) {
		found = append(found, `the token cannot read nodes, so hpad counts 1000 MHz as one core; utilization is not affected (to measure in cores, grant node { policy = "read" })`)
	}
	if err := f.records.Failure(); err != nil {
		found = append(found, "readiness cannot be stored: "+err.Error())
	}
	return found, errors.Join(missing...)
}

// scopes returns the sorted namespaces in use. If no namespace is in use, it returns the fleet's
// namespace.
func (f *Fleet) scopes() []scope {
	var scopes []scope
	for _, t := range f.base.Known() {
		scopes = append(scopes, t.scope())
	}
	for _, namespace := range f.config.DiscoverNamespaces {
		if f.config.Discover && namespace != everyNamespace {
			scopes = append(scopes, scope{region: f.config.Region, namespace: namespace})
		}
	}
	if len(scopes) == 0 {
		return []scope{{region: f.config.Region, namespace: f.config.Namespace}}
	}
	slices.SortFunc(scopes, func(a, b scope) int { return strings.Compare(a.String(), b.String()) })
	return slices.Compact(scopes)
}

func (s *session) version(ctx context.Context, at scope) string {
	var self struct {
		Member struct{ Tags map[string]string }
	}
	if err := s.get(ctx, at, "/v1/agent/self", nil, "", &self); err != nil {
		return "the version of Nomad is unknown: " + readError(err).Error()
	}
	version := self.Member.Tags["build"]
	if version == "" {
		return "the version of Nomad is unknown: the agent does not report it"
	}
	return "connected to Nomad " + version
}

// capabilities returns the token's existing and missing capabilities in a namespace. dispatches reports
// whether the namespace has a parameterized job that is a target.
func (s *session) capabilities(ctx context.Context, at scope, dispatches bool) (have, lack []string, err error) {
	const noJob = "hpad-check"
	impossible := int64(-1)
	type try struct {
		name string
		call func() error
	}
	tries := []try{
		{"list-jobs", func() error {
			var none []struct{}
			return s.get(ctx, at, "/v1/jobs", map[string]string{"per_page": "1"}, "", &none)
		}},
		{"read-job", func() error {
			var none struct{}
			return s.get(ctx, at, "/v1/job/"+noJob, nil, "", &none)
		}},
		{"scale-job", func() error {
			return s.scale(ctx, at, noJob, &api.ScalingRequest{Count: &impossible, Target: map[string]string{"Job": noJob, "Group": noJob}})
		}},
	}
	if dispatches {
		tries = append(tries, try{"dispatch-job", func() error {
			_, err := s.dispatchOnce(ctx, Target{Region: at.region, Namespace: at.namespace}, &api.DispatchOptions{JobID: noJob}, "")
			return err
		}})
	}
	for _, try := range tries {
		err := try.call()
		status, body := responseOf(err)
		switch {
		case strings.Contains(body, textDisabled):
			return nil, nil, fmt.Errorf("check the permission %s in %v: %w", try.name, at, &responseError{status: status, body: body})
		case status == http.StatusForbidden || status == http.StatusUnauthorized:
			lack = append(lack, try.name)
		case err == nil, status == http.StatusNotFound, status == http.StatusBadRequest, strings.Contains(body, textNoParameterized):
			have = append(have, try.name)
		default:
			return nil, nil, fmt.Errorf("try %s in %v: %w", try.name, at, readError(err))
		}
	}
	return have, lack, nil
}
