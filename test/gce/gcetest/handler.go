package gcetest

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"cloud.google.com/go/compute/apiv1/computepb"
	"google.golang.org/protobuf/proto"
)

// handler implements a method and contains the permission that the method requires.
type handler struct {
	permission string
	do         func(s *Server, c *call) (proto.Message, *apiError)
}

// handlers maps method IDs without "compute." to their implementations.
var handlers = map[string]handler{
	"instanceGroupManagers.aggregatedList":             {"compute.instanceGroupManagers.list", listGroups},
	"instanceGroupManagers.get":                        {"compute.instanceGroupManagers.get", getGroup},
	"regionInstanceGroupManagers.get":                  {"compute.instanceGroupManagers.get", getGroup},
	"instanceGroupManagers.listManagedInstances":       {"compute.instanceGroupManagers.get", listMembers},
	"regionInstanceGroupManagers.listManagedInstances": {"compute.instanceGroupManagers.get", listRegionMembers},
	"instanceGroupManagers.resize":                     {"compute.instanceGroupManagers.update", resize},
	"regionInstanceGroupManagers.resize":               {"compute.instanceGroupManagers.update", resize},
	"instanceGroupManagers.deleteInstances":            {"compute.instanceGroupManagers.update", deleteInstances},
	"regionInstanceGroupManagers.deleteInstances":      {"compute.instanceGroupManagers.update", deleteInstances},
	"instanceGroupManagers.patch":                      {"compute.instanceGroupManagers.update", patch},
	"regionInstanceGroupManagers.patch":                {"compute.instanceGroupManagers.update", patch},
	"instances.aggregatedList":                         {"compute.instances.list", listMachines},
	"instances.get":                                    {"compute.instances.get", getMachine},
	"autoscalers.aggregatedList":                       {"compute.autoscalers.list", listAutoscalers},
	"zoneOperations.get":                               {"compute.zoneOperations.get", getOperation},
	"regionOperations.get":                             {"compute.regionOperations.get", getOperation},
	"zoneOperations.wait":                              {"compute.zoneOperations.get", getOperation},
	"regionOperations.wait":                            {"compute.regionOperations.get", getOperation},
}

// scope returns the zone or region of a call.
func (c *call) scope() string {
	if region := c.parameters["region"]; region != "" {
		return "regions/" + region
	}
	return "zones/" + c.parameters["zone"]
}

// group returns the group of a call in its current state.
func (s *Server) group(c *call) (*group, *apiError) {
	g := s.groups[c.scope()+"/"+c.parameters["instanceGroupManager"]]
	if g == nil {
		return nil, notFound("projects/" + s.Project + "/" + c.scope() + "/instanceGroupManagers/" + c.parameters["instanceGroupManager"])
	}
	s.advance(g, time.Now())
	return g, nil
}

func notFound(resource string) *apiError {
	return &apiError{status: http.StatusNotFound, domain: "global", reason: "notFound", message: fmt.Sprintf("The resource '%s' was not found", resource)}
}

func invalid(field, value, rule string) *apiError {
	return &apiError{status: http.StatusBadRequest, domain: "global", reason: "invalid", message: fmt.Sprintf("Invalid value for field '%s': '%s'. %s", field, value, rule)}
}

func listGroups(s *Server, c *call) (proto.Message, *apiError) {
	now := time.Now()
	names, next, refused := page(slices.Sorted(maps.Keys(s.groups)), c.query)
	if refused != nil {
		return nil, refused
	}
	list := &computepb.InstanceGroupManagerAggregatedList{
		Kind: new("compute#instanceGroupManagerAggregatedList"), Id: new("projects/" + s.Project + "/aggregated/instanceGroupManagers"),
		Items: map[string]*computepb.InstanceGroupManagersScopedList{"zones/us-west9-z": {Warning: noResults("zones/us-west9-z")}},
	}
	if next != "" {
		list.NextPageToken = &next
	}
	for _, name := range names {
		g := s.groups[name]
		if s.unreachable[g.scope()] {
			continue
		}
		s.advance(g, now)
		scope := list.Items[g.scope()]
		if scope == nil {
			scope = &computepb.InstanceGroupManagersScopedList{}
			list.Items[g.scope()] = scope
		}
		scope.InstanceGroupManagers = append(scope.InstanceGroupManagers, s.manager(g))
	}
	return list, s.reach(c, func(scope string, warning *computepb.Warning) {
		list.Items[scope] = &computepb.InstanceGroupManagersScopedList{Warning: warning}
		list.Unreachables = append(list.Unreachables, s.link(scope))
	})
}

// reach calls report with a warning for each unreachable scope if the client accepts partial
// results. Otherwise, it returns an error if a scope is unreachable.
func (s *Server) reach(c *call, report func(scope string, warning *computepb.Warning)) *apiError {
	for _, scope := range slices.Sorted(maps.Keys(s.unreachable)) {
		if !s.unreachable[scope] {
			continue
		}
		if c.query.Get("returnPartialSuccess") != "true" {
			return &apiError{status: http.StatusServiceUnavailable, domain: "global", reason: "backendError", message: "The resource '" + scope + "' could not be reached"}
		}
		report(scope, &computepb.Warning{Code: new("UNREACHABLE"), Message: new("The scope '" + scope + "' is not reachable.")})
	}
	return nil
}

func noResults(scope string) *computepb.Warning {
	return &computepb.Warning{Code: new("NO_RESULTS_ON_PAGE"), Message: new("There are no results for scope '" + scope + "' on this page.")}
}

// page returns the requested page of a list.
func page(all []string, query url.Values) ([]string, string, *apiError) {
	size := 500
	if text := query.Get("maxResults"); text != "" {
		size, _ = strconv.Atoi(text) // is an integer, as already checked
		if size < 1 || size > 500 {
			return nil, "", invalid("maxResults", text, "Value should be in [1, 500]")
		}
	}
	from := 0
	if token := query.Get("pageToken"); token != "" {
		n, err := strconv.Atoi(strings.TrimPrefix(token, "page-"))
		if err != nil || n > len(all) {
			return nil, "", invalid("pageToken", token, "The page token is not valid")
		}
		from = n
	}
	to := min(from+size, len(all))
	if to < len(all) {
		return all[from:to], "page-" + strconv.Itoa(to), nil
	}
	return all[from:to], "", nil
}

func getGroup(s *Server, c *call) (proto.Message, *apiError) {
	g, refused := s.group(c)
	if refused != nil {
		return nil, refused
	}
	return s.manager(g), nil
}

// members returns a group's instances, or a page of them.
func (s *Server) members(c *call) ([]*computepb.ManagedInstance, *string, *apiError) {
	g, refused := s.group(c)
	if refused != nil {
		return nil, nil, refused
	}
	names := make([]string, 0, len(g.instances))
	of := map[string]*instance{}
	for _, i := range g.instances {
		names = append(names, i.name)
		of[i.name] = i
	}
	if g.lies > 0 {
		g.lies--
		names = names[:min(g.lie, len(names))]
	}
	next := ""
	if g.Paginated {
		if names, next, refused = page(names, c.query); refused != nil {
			return nil, nil, refused
		}
	}
	members := make([]*computepb.ManagedInstance, 0, len(names))
	for _, name := range names {
		members = append(members, s.member(g, of[name]))
	}
	if next == "" {
		return members, nil, nil
	}
	return members, &next, nil
}

func listMembers(s *Server, c *call) (proto.Message, *apiError) {
	members, next, refused := s.members(c)
	return &computepb.InstanceGroupManagersListManagedInstancesResponse{ManagedInstances: members, NextPageToken: next}, refused
}

func listRegionMembers(s *Server, c *call) (proto.Message, *apiError) {
	members, next, refused := s.members(c)
	return &computepb.RegionInstanceGroupManagersListInstancesResponse{ManagedInstances: members, NextPageToken: next}, refused
}

// unchangeable returns the error for a size change while an autoscaler is on, or nil.
func (g *group) unchangeable() *apiError {
	if g.autoscaler == "" || g.autoscaler == "OFF" {
		return nil
	}
	kind := "zonal"
	if g.Region != "" {
		kind = "regional"
	}
	return &apiError{status: http.StatusPreconditionFailed, domain: "global", reason: "conditionNotMet", message: "Resizing of autoscaled " + kind +
		" managed instance groups is not allowed. If you want to manually adjust target size remove the autoscaler or set autoscaling policy mode to OFF."}
}

func resize(s *Server, c *call) (proto.Message, *apiError) {
	g, refused := s.group(c)
	if refused != nil {
		return nil, refused
	}
	size, _ := strconv.Atoi(c.query.Get("size")) // is an integer, as already checked
	switch {
	case size < 0:
		return nil, invalid("size", c.query.Get("size"), "Must be greater than or equal to 0")
	case g.largest > 0 && size > g.largest:
		return nil, invalid("size", c.query.Get("size"), fmt.Sprintf("Must be less than or equal to %d", g.largest))
	}
	return s.begin(c, g, "compute.instanceGroupManagers.resize", func(o *operation, now time.Time) *apiError {
		if refused := g.unchangeable(); refused != nil {
			return refused
		}
		before := g.size
		s.resized++
		if g.resizing != nil {
			o.failed, o.status = g.resizing, http.StatusForbidden
			o.undo = func(now time.Time) { s.setSize(g, before, now) }
		}
		s.setSize(g, size, now)
		return nil
	})
}

func deleteInstances(s *Server, c *call) (proto.Message, *apiError) {
	g, refused := s.group(c)
	if refused != nil {
		return nil, refused
	}
	body, _ := c.body.(map[string]any)
	named, _ := body["instances"].([]any)
	skips, _ := body["skipInstancesOnValidationError"].(bool)
	if len(named) == 0 {
		return nil, &apiError{status: http.StatusBadRequest, domain: "global", reason: "required", message: "Required field 'instances' not specified"}
	}
	if len(named) > 1000 {
		return nil, invalid("instances", strconv.Itoa(len(named)), "At most 1000 instances can be deleted at once")
	}
	return s.begin(c, g, "compute.instanceGroupManagers.deleteInstances", func(_ *operation, now time.Time) *apiError {
		var victims []*instance
		for _, one := range named {
			address, _ := one.(string)
			i := g.find(address)
			switch {
			case i != nil && i.action != actionDeleting:
				victims = append(victims, i)
			case !skips:
				return invalid("instances", address, "The instance is not a member of the group, or is being deleted")
			}
		}
		s.resized++
		for _, i := range victims {
			s.stop(g, i, now)
		}
		g.size -= len(victims)
		s.advance(g, now)
		return nil
	})
}

// find returns the instance with the given full or partial URL, or nil.
func (g *group) find(address string) *instance {
	for _, i := range g.instances {
		if strings.HasSuffix("/"+address, "/zones/"+i.zone+"/instances/"+i.name) {
			return i
		}
	}
	return nil
}

// patch only compares the fingerprint and changes nothing.
func patch(s *Server, c *call) (proto.Message, *apiError) {
	g, refused := s.group(c)
	if refused != nil {
		return nil, refused
	}
	body, _ := c.body.(map[string]any)
	if given, ok := body["fingerprint"].(string); ok && given != g.fingerprint() {
		return nil, &apiError{status: http.StatusPreconditionFailed, domain: "global", reason: "conditionNotMet", message: "Invalid fingerprint."}
	}
	return s.begin(c, g, "compute.instanceGroupManagers.patch", func(*operation, time.Time) *apiError { return nil })
}

func listMachines(s *Server, c *call) (proto.Message, *apiError) {
	now := time.Now()
	all := map[string]*computepb.Instance{}
	for _, g := range s.groups {
		s.advance(g, now)
		for _, i := range g.instances {
			if i.status != "" {
				all[i.zone+"/"+i.name] = s.machine(g, i)
			}
		}
	}
	names, next, refused := page(slices.Sorted(maps.Keys(all)), c.query)
	if refused != nil {
		return nil, refused
	}
	list := &computepb.InstanceAggregatedList{Kind: new("compute#instanceAggregatedList"), Items: map[string]*computepb.InstancesScopedList{}}
	if next != "" {
		list.NextPageToken = &next
	}
	for _, name := range names {
		zone, _, _ := strings.Cut(name, "/")
		scope := list.Items["zones/"+zone]
		if scope == nil {
			scope = &computepb.InstancesScopedList{}
			list.Items["zones/"+zone] = scope
		}
		scope.Instances = append(scope.Instances, all[name])
	}
	return list, nil
}

func getMachine(s *Server, c *call) (proto.Message, *apiError) {
	for _, g := range s.groups {
		s.advance(g, time.Now())
		if i := g.find("zones/" + c.parameters["zone"] + "/instances/" + c.parameters["instance"]); i != nil && i.status != "" {
			return s.machine(g, i), nil
		}
	}
	return nil, notFound(c.resource())
}

func listAutoscalers(s *Server, c *call) (proto.Message, *apiError) {
	var having []string
	for name, g := range s.groups {
		if g.autoscaler != "" {
			having = append(having, name)
		}
	}
	slices.Sort(having)
	names, next, refused := page(having, c.query)
	if refused != nil {
		return nil, refused
	}
	list := &computepb.AutoscalerAggregatedList{Kind: new("compute#autoscalerAggregatedList"), Items: map[string]*computepb.AutoscalersScopedList{}}
	if next != "" {
		list.NextPageToken = &next
	}
	for _, name := range names {
		g := s.groups[name]
		scope := list.Items[g.scope()]
		if scope == nil {
			scope = &computepb.AutoscalersScopedList{}
			list.Items[g.scope()] = scope
		}
		scope.Autoscalers = append(scope.Autoscalers, s.scaler(g))
	}
	return list, nil
}
