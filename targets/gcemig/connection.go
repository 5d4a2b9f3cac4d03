package gcemig

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"cloud.google.com/go/auth/httptransport"
	"google.golang.org/api/compute/v1"
	"google.golang.org/api/googleapi"
	"google.golang.org/api/option"

	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/cloud"
	"github.com/hpad/hpad/targets/cloud/googlelogin"
)

// session is a client with its credentials.
type session struct {
	client     *http.Client
	endpoint   string
	project    string
	transports [2]*http.Transport
}

// service returns a client for one call. If a struct contained the client, the linker could not
// omit the methods for 100 unused services, which are 8 MB.
func (s *session) service() *compute.Service {
	service, _ := s.newService() // newSession has reported an error
	return service
}

func (s *session) newService() (*compute.Service, error) {
	service, err := compute.NewService(context.Background(), option.WithHTTPClient(s.client), option.WithEndpoint(s.endpoint))
	if err == nil {
		service.UserAgent = "hpad"
	}
	return service, err
}

func (s *session) close() {
	for _, transport := range s.transports {
		transport.CloseIdleConnections()
	}
}

// newSession builds a session without connecting to the API. Without configured credentials it
// may connect to the metadata server.
func newSession(c *Config, limiter *cloud.Limiter) (*session, error) {
	made := &session{project: c.Project}
	for i := range made.transports {
		made.transports[i] = cloud.NewTransport(c.Timeout, c.MaxConnections)
	}
	found, err := googlelogin.Find(&c.Login, &http.Client{Transport: made.transports[0], Timeout: c.Timeout})
	if err != nil {
		return nil, err
	}
	headers := http.Header{}
	if c.QuotaProject != "" {
		headers.Set("X-Goog-User-Project", c.QuotaProject)
	}
	authorized, err := httptransport.NewClient(&httptransport.Options{
		Credentials: found, BaseRoundTripper: made.transports[1], Headers: headers,
		UniverseDomain: c.UniverseDomain, DisableTelemetry: true,
	})
	if err != nil {
		return nil, fmt.Errorf("use credentials: %w", err)
	}
	authorized.Transport = &sender{authorized.Transport, limiter}
	made.client = authorized
	made.endpoint = strings.TrimSuffix(c.Endpoint, "/") + "/"
	if _, err := made.newService(); err != nil {
		return nil, fmt.Errorf("use endpoint %q: %w", c.Endpoint, err)
	}
	return made, nil
}

// sender sends the SDK's requests within the fleet's limits, and classifies their errors.
type sender struct {
	// RoundTripper adds the credentials.
	http.RoundTripper
	limiter *cloud.Limiter
}

type callKey struct{}

// reading returns a context for a read call. The operation is the platform's name for the call.
func reading(ctx context.Context, operation string) context.Context {
	return context.WithValue(ctx, callKey{}, cloud.Call{Operation: operation, Class: cloud.Read})
}

// writing returns a context for a write call.
func writing(ctx context.Context, operation string) context.Context {
	return context.WithValue(ctx, callKey{}, cloud.Call{Operation: operation, Class: cloud.Write})
}

// RoundTrip sends a request with a context of [reading] or [writing], and reads the whole
// response.
func (s *sender) RoundTrip(r *http.Request) (response *http.Response, err error) {
	call, _ := r.Context().Value(callKey{}).(cloud.Call)
	err = s.limiter.Do(r.Context(), call, func(ctx context.Context) (err error) {
		if response, err = s.RoundTripper.RoundTrip(r.WithContext(ctx)); err != nil {
			return googlelogin.Explain(err)
		}
		body, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if err != nil {
			return err
		}
		response.Body = io.NopCloser(bytes.NewReader(body))
		if response.StatusCode >= http.StatusBadRequest {
			return googleapi.CheckResponseWithBody(response, body)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return response, nil
}

// sent removes the SDK's prefix from the error of a request.
func sent(err error) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok && targets.HasClass(wrapped.Err) {
		return wrapped.Err
	}
	return err
}

// pageSize is the maximum page size of lists.
const pageSize = 500

// either makes the zonal or the regional call for a target's group.
func either[R any](t *Target, zonal, regional func(...googleapi.CallOption) (R, error)) (R, error) {
	if t.Region != "" {
		return regional()
	}
	return zonal()
}

// operation returns the platform's name for a call to a group.
func (t *Target) operation(verb string) string {
	if t.Region != "" {
		return "regionInstanceGroupManagers." + verb
	}
	return "instanceGroupManagers." + verb
}

func (s *session) group(ctx context.Context, t *Target) (*compute.InstanceGroupManager, error) {
	ctx = reading(ctx, t.operation("get"))
	found, err := either(t,
		s.service().InstanceGroupManagers.Get(s.project, t.Zone, t.Group).Context(ctx).Do,
		s.service().RegionInstanceGroupManagers.Get(s.project, t.Region, t.Group).Context(ctx).Do)
	if err != nil {
		return nil, fmt.Errorf("get group %v: %w", t, sent(err))
	}
	return found, nil
}

func (s *session) members(ctx context.Context, t *Target) ([]*compute.ManagedInstance, error) {
	ctx = reading(ctx, t.operation("listManagedInstances"))
	var found []*compute.ManagedInstance
	var err error
	if t.Region != "" {
		err = s.service().RegionInstanceGroupManagers.ListManagedInstances(s.project, t.Region, t.Group).MaxResults(pageSize).
			Pages(ctx, func(page *compute.RegionInstanceGroupManagersListInstancesResponse) error {
				found = append(found, page.ManagedInstances...)
				return nil
			})
	} else {
		err = s.service().InstanceGroupManagers.ListManagedInstances(s.project, t.Zone, t.Group).MaxResults(pageSize).
			Pages(ctx, func(page *compute.InstanceGroupManagersListManagedInstancesResponse) error {
				found = append(found, page.ManagedInstances...)
				return nil
			})
	}
	if err != nil {
		return nil, fmt.Errorf("list instances of group %v: %w", t, sent(err))
	}
	return found, nil
}

func (s *session) resize(ctx context.Context, t *Target, size int32) (*compute.Operation, error) {
	ctx = writing(ctx, t.operation("resize"))
	started, err := either(t,
		s.service().InstanceGroupManagers.Resize(s.project, t.Zone, t.Group, int64(size)).Context(ctx).Do,
		s.service().RegionInstanceGroupManagers.Resize(s.project, t.Region, t.Group, int64(size)).Context(ctx).Do)
	return started, sent(err)
}

// remove deletes instances, which lowers the group's size. It skips instances that cannot be
// deleted.
func (s *session) remove(ctx context.Context, t *Target, urls []string) (*compute.Operation, error) {
	ctx = writing(ctx, t.operation("deleteInstances"))
	zonal := &compute.InstanceGroupManagersDeleteInstancesRequest{Instances: urls, SkipInstancesOnValidationError: true}
	regional := &compute.RegionInstanceGroupManagersDeleteInstancesRequest{Instances: urls, SkipInstancesOnValidationError: true}
	started, err := either(t,
		s.service().InstanceGroupManagers.DeleteInstances(s.project, t.Zone, t.Group, zonal).Context(ctx).Do,
		s.service().RegionInstanceGroupManagers.DeleteInstances(s.project, t.Region, t.Group, regional).Context(ctx).Do)
	return started, sent(err)
}

// touch tries an empty change with a version that no group has. The error reveals whether the
// permission is missing.
func (s *session) touch(ctx context.Context, t *Target) error {
	ctx = writing(ctx, t.operation("patch"))
	nothing := &compute.InstanceGroupManager{Fingerprint: "AAAAAAAAAAA="}
	_, err := either(t,
		s.service().InstanceGroupManagers.Patch(s.project, t.Zone, t.Group, nothing).Context(ctx).Do,
		s.service().RegionInstanceGroupManagers.Patch(s.project, t.Region, t.Group, nothing).Context(ctx).Do)
	return sent(err)
}

func (s *session) follow(ctx context.Context, t *Target, name string) (*compute.Operation, error) {
	found, err := either(t,
		s.service().ZoneOperations.Get(s.project, t.Zone, name).Context(reading(ctx, "zoneOperations.get")).Do,
		s.service().RegionOperations.Get(s.project, t.Region, name).Context(reading(ctx, "regionOperations.get")).Do)
	return found, sent(err)
}
