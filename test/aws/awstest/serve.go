package awstest

import (
	"fmt"
	"net/http"
	"strings"
	"time"
)

// Fault makes the next calls of an action fail.
type Fault struct {
	// Action is the affected action; empty means any.
	Action string
	// Times is the number of affected calls.
	Times int
	// Delay delays the response.
	Delay time.Duration
	// Status, Code and Message describe an error response. The call has no effect.
	Status        int
	Code, Message string
	// RetryAfter is the Retry-After header of the error response, in seconds.
	RetryAfter int
	// Lost executes the call and closes the connection without a response.
	Lost bool
	// Garbled makes the server return invalid XML.
	Garbled bool
}

// Inject adds a fault.
func (c *Cloud) Inject(f Fault) { c.locked(func() { c.faults = append(c.faults, &f) }) }

// take returns the fault that affects a call, or a zero Fault.
func (c *Cloud) take(name string) Fault {
	for _, f := range c.faults {
		if f.Times > 0 && (f.Action == "" || f.Action == name) {
			f.Times--
			return *f
		}
	}
	return Fault{}
}

func (c *Cloud) serve(w http.ResponseWriter, r *http.Request) {
	name, version := r.PostForm.Get("Action"), r.PostForm.Get("Version")
	called, parameters, err := decode(r.PostForm)
	c.mu.Lock()
	c.requests++
	c.calls[name]++
	id := fmt.Sprintf("00000000-0000-4000-8000-%012x", c.requests)
	fault := c.take(name)
	c.mu.Unlock()
	if fault.Delay > 0 {
		select {
		case <-time.After(fault.Delay):
		case <-r.Context().Done():
			return
		}
	}
	if fault.Garbled {
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte("<html><body>Proxy error<body>"))
		return
	}
	var result element
	refused := c.admit(r, name, version, called, parameters, err)
	if refused == nil && fault.Status > 0 {
		refused = &apiError{status: fault.Status, code: fault.Code, message: fault.Message, retryAfter: fault.RetryAfter}
	}
	if refused == nil {
		c.Rival.Meet(name)
		c.mu.Lock()
		result, refused = called.run(c)
		if _, change := called.scope(); change && refused == nil {
			c.writes++
		}
		c.mu.Unlock()
	}
	switch {
	case fault.Lost:
		panic(http.ErrAbortHandler)
	case refused != nil:
		writeError(w, version, id, refused)
	default:
		writeResult(w, version, name, id, result)
	}
}

// admit authenticates, authorizes and throttles a call in the same order as AWS. It returns nil if
// the call is permitted.
func (c *Cloud) admit(r *http.Request, name, version string, called action, parameters *request, err error) *apiError {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.unknown = append(c.unknown, err.Error())
		return &apiError{status: http.StatusBadRequest, code: "InvalidAction", message: err.Error()}
	}
	if refused := c.authenticate(r, version); refused != nil {
		return refused
	}
	group, _ := called.scope()
	if c.denied[denial{name, ""}] || c.denied[denial{name, group}] {
		return denied(version, name, group)
	}
	bucket, code, status := c.bucket, "Throttling", http.StatusBadRequest
	if version == versionEC2 {
		bucket, code, status = c.ec2Bucket, "RequestLimitExceeded", http.StatusServiceUnavailable
	}
	if bucket != nil && version != versionSTS && !bucket.Allow() {
		c.refused++
		return &apiError{status: status, code: code, message: "Rate exceeded"}
	}
	if left := parameters.left(); len(left) > 0 || parameters.err != nil {
		c.unknown = append(c.unknown, fmt.Sprintf("%s of %s (%v)", left, name, parameters.err))
		return invalid("parameters %s (%v)", left, parameters.err)
	}
	return nil
}

// authenticate checks a call's access key and the scope of its signature.
func (c *Cloud) authenticate(r *http.Request, version string) *apiError {
	_, signature, ok := strings.Cut(r.Header.Get("Authorization"), "AWS4-HMAC-SHA256 Credential=")
	scope := strings.Split(signature, "/")
	service := map[string]string{versionAutoScaling: "autoscaling", versionEC2: "ec2", versionSTS: "sts"}[version]
	switch {
	case !ok || len(scope) < 4:
		return &apiError{status: http.StatusForbidden, code: "MissingAuthenticationToken", message: "Request is missing Authentication Token"}
	case scope[2] != Region || scope[3] != service:
		return &apiError{status: http.StatusForbidden, code: "SignatureDoesNotMatch", message: fmt.Sprintf("Credential should be scoped to %s/%s, not %s/%s", Region, service, scope[2], scope[3])}
	case scope[0] == c.key && !c.expired, strings.HasPrefix(scope[0], roleKey):
		return nil
	case c.expired:
		return &apiError{status: http.StatusForbidden, code: "ExpiredToken", message: "The security token included in the request is expired"}
	}
	return &apiError{status: http.StatusForbidden, code: "InvalidClientTokenId", message: "The security token included in the request is invalid."}
}

func denied(version, name, group string) *apiError {
	if version == versionEC2 {
		return &apiError{status: http.StatusForbidden, code: "UnauthorizedOperation", message: "You are not authorized to perform this operation."}
	}
	return &apiError{status: http.StatusForbidden, code: "AccessDenied", message: fmt.Sprintf(
		"User: arn:aws:iam::%s:user/hpad is not authorized to perform: autoscaling:%s on resource: %s because no identity-based policy allows the autoscaling:%s action",
		Account, name, arn(group), name)}
}

func arn(group string) string {
	if group == "" {
		return "*"
	}
	return fmt.Sprintf("arn:aws:autoscaling:%s:%s:autoScalingGroup:00000000-0000-4000-8000-000000000000:autoScalingGroupName/%s", Region, Account, group)
}
