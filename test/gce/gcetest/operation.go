package gcetest

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"time"

	"cloud.google.com/go/compute/apiv1/computepb"
	"google.golang.org/protobuf/proto"
)

// operation is an accepted change.
type operation struct {
	name    string
	id      uint64
	kind    string
	scope   string
	target  string
	request string
	begun   time.Time
	failed  *attemptError
	status  int
	// undo reverts the change if the operation fails later.
	undo func(now time.Time)
}

// requestID matches valid request IDs. The zero UUID is invalid.
var requestID = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-[1-5][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)

// begin starts a change to a group, once per request ID. do executes the change. It returns an
// error if the change is rejected, or sets o.failed if the operation must fail later.
func (s *Server) begin(c *call, g *group, kind string, do func(o *operation, now time.Time) *apiError) (proto.Message, *apiError) {
	request := c.query.Get("requestId")
	if request != "" && !requestID.MatchString(request) {
		return nil, invalid("requestId", request, "must be a valid UUID")
	}
	now := time.Now()
	if before := s.requests[request]; request != "" && before != nil {
		return s.look(before, now), nil
	}
	s.ids++
	o := &operation{
		name: fmt.Sprintf("operation-%d-%d", now.UnixMilli(), s.ids), id: s.nextID(), kind: kind, scope: g.scope(),
		target: g.Target(), request: request, begun: now,
	}
	if refused := do(o, now); refused != nil {
		return nil, refused
	}
	s.operations[o.name] = o
	if request != "" {
		s.requests[request] = o
	}
	status := s.look(o, now)
	// Compute Engine never completes a change immediately.
	status.Status = computepb.Operation_RUNNING.Enum()
	status.EndTime, status.Progress, status.Error, status.HttpErrorStatusCode, status.HttpErrorMessage = nil, proto.Int32(0), nil, nil, nil
	return status, nil
}

// look converts the current state of an operation to the API type.
func (s *Server) look(o *operation, now time.Time) *computepb.Operation {
	status := &computepb.Operation{
		Kind: new("compute#operation"), Name: &o.name, Id: &o.id, OperationType: &o.kind, User: new(Account),
		TargetLink: new(s.link(strings.Replace(o.target, "/"+lastOf(o.target), "/instanceGroupManagers/"+lastOf(o.target), 1))),
		SelfLink:   new(s.link(o.scope + "/operations/" + o.name)),
		InsertTime: stamp(o.begun), StartTime: stamp(o.begun), Progress: proto.Int32(0),
		Status: computepb.Operation_RUNNING.Enum(),
	}
	if o.request != "" {
		status.ClientOperationId = &o.request
	}
	s.place(o.scope, &status.Zone, &status.Region)
	if o.undo != nil && o.failed != nil {
		o.undo(now)
		o.undo = nil
	}
	status.Status, status.Progress, status.EndTime = computepb.Operation_DONE.Enum(), proto.Int32(100), stamp(o.begun)
	if o.failed != nil {
		status.HttpErrorStatusCode = new(int32(o.status))
		status.HttpErrorMessage = new(strings.ToUpper(http.StatusText(o.status)))
		status.Error = &computepb.Error{Errors: []*computepb.Errors{{Code: &o.failed.code, Message: &o.failed.message}}}
	}
	return status
}

func getOperation(s *Server, c *call) (proto.Message, *apiError) {
	o := s.operations[c.parameters["operation"]]
	if o == nil || o.scope != c.scope() {
		return nil, notFound(c.resource())
	}
	return s.look(o, time.Now()), nil
}
