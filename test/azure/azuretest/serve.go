package azuretest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
)

// computeVersion is the API version that the SDK's fake servers implement.
const computeVersion = "2025-04-01"

// route is an implemented path.
type route struct {
	method, pattern string
	// operation is Azure's name for the operation. action is the permission that it requires.
	operation, action string
	// version is the api-version of the operation.
	version string
	// api is the operation's name in the SDK's fake servers. If it is empty, serve handles the
	// call.
	api   string
	serve func(s *Server, w http.ResponseWriter, r *http.Request, parts []string) error

	compiled *regexp.Regexp
}

// Elements of paths.
const (
	inSubscription = `(?i)^/subscriptions/[^/]+`
	inGroup        = inSubscription + `/resourceGroups/([^/]+)`
	aSet           = inGroup + `/providers/Microsoft.Compute/virtualMachineScaleSets/([^/]+)`
)

var routes = compile([]route{
	{method: "GET", pattern: inSubscription + `/providers/Microsoft.Compute/virtualMachineScaleSets$`, operation: "VirtualMachineScaleSets_ListAll", action: "Microsoft.Compute/virtualMachineScaleSets/read", version: computeVersion, api: "VirtualMachineScaleSetsClient.NewListAllPager"},
	{method: "GET", pattern: inGroup + `/providers/Microsoft.Compute/virtualMachineScaleSets$`, operation: "VirtualMachineScaleSets_List", action: "Microsoft.Compute/virtualMachineScaleSets/read", version: computeVersion, api: "VirtualMachineScaleSetsClient.NewListPager"},
	{method: "GET", pattern: aSet + `$`, operation: "VirtualMachineScaleSets_Get", action: "Microsoft.Compute/virtualMachineScaleSets/read", version: computeVersion, api: "VirtualMachineScaleSetsClient.Get"},
	{method: "PATCH", pattern: aSet + `$`, operation: "VirtualMachineScaleSets_Update", action: "Microsoft.Compute/virtualMachineScaleSets/write", version: computeVersion, api: "VirtualMachineScaleSetsClient.BeginUpdate"},
	{method: "POST", pattern: aSet + `/delete$`, operation: "VirtualMachineScaleSets_DeleteInstances", action: "Microsoft.Compute/virtualMachineScaleSets/delete/action", version: computeVersion, api: "VirtualMachineScaleSetsClient.BeginDeleteInstances"},
	{method: "GET", pattern: aSet + `/virtualMachines$`, operation: "VirtualMachineScaleSetVMs_List", action: "Microsoft.Compute/virtualMachineScaleSets/virtualMachines/read", version: computeVersion, api: "VirtualMachineScaleSetVMsClient.NewListPager"},
	{method: "GET", pattern: aSet + `/rollingUpgrades/latest$`, operation: "VirtualMachineScaleSetRollingUpgrades_GetLatest", action: "Microsoft.Compute/virtualMachineScaleSets/rollingUpgrades/read", version: computeVersion, api: "VirtualMachineScaleSetRollingUpgradesClient.GetLatest"},
	{method: "GET", pattern: inGroup + `/providers/Microsoft.Compute/virtualMachines$`, operation: "VirtualMachines_List", action: "Microsoft.Compute/virtualMachines/read", version: computeVersion, api: "VirtualMachinesClient.NewListPager"},
	{method: "GET", pattern: inSubscription + `/providers/Microsoft.Compute/locations/[^/]+/operations/([^/]+)$`, operation: "Operations_Get", action: "Microsoft.Compute/locations/operations/read", version: computeVersion, serve: (*Server).serveOperation},
	{method: "GET", pattern: inSubscription + `(?:/resourceGroups/([^/]+))?/providers/Microsoft.Insights/autoscalesettings$`, operation: "AutoscaleSettings_List", action: "Microsoft.Insights/autoscaleSettings/read", version: "2022-10-01", serve: (*Server).serveAutoscale},
	{method: "GET", pattern: aSet + `/networkInterfaces$`, operation: "NetworkInterfaces_ListVirtualMachineScaleSetNetworkInterfaces", action: "Microsoft.Compute/virtualMachineScaleSets/networkInterfaces/read", version: "2018-10-01", serve: (*Server).serveMemberInterfaces},
	{method: "GET", pattern: inGroup + `/providers/Microsoft.Network/networkInterfaces$`, operation: "NetworkInterfaces_List", action: "Microsoft.Network/networkInterfaces/read", version: "2023-09-01", serve: (*Server).serveInterfaces},
})

func compile(routes []route) []route {
	for i := range routes {
		routes[i].compiled = regexp.MustCompile(routes[i].pattern)
	}
	return routes
}

// ServeHTTP implements Azure Resource Manager and Microsoft Entra ID.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !s.await(r.Context()) {
		return
	}
	if path, ok := strings.CutPrefix(r.URL.Path, "/"+Tenant+"/"); ok {
		s.serveToken(w, r, path)
		return
	}
	found, parts := find(r)
	if found == nil {
		s.mu.Lock()
		s.strays = append(s.strays, r.Method+" "+r.URL.String())
		s.mu.Unlock()
		write(w, &apiError{status: http.StatusNotFound, code: "InvalidResourceType", message: "no such path"})
		return
	}
	s.Rival.Meet(found.operation)
	failure, err := s.admit(r, found)
	if err == nil && failure != nil && !failure.Late {
		s.fail(w, failure)
		return
	}
	if err == nil {
		if failure != nil { // Late: execute the call before responding
			_ = found.handle(s, discard{}, r, parts)
			s.fail(w, failure)
			return
		}
		err = found.handle(s, w, r, parts)
	}
	if err != nil {
		write(w, err)
	}
}

// await blocks a call while the server hangs. It returns false if the server was hanging.
func (s *Server) await(ctx context.Context) bool {
	s.mu.Lock()
	hang := s.hang
	s.mu.Unlock()
	if hang == nil {
		return true
	}
	select {
	case <-hang:
	case <-ctx.Done():
	}
	return false
}

func find(r *http.Request) (*route, []string) {
	for i := range routes {
		if routes[i].method != r.Method {
			continue
		}
		if parts := routes[i].compiled.FindStringSubmatch(r.URL.Path); parts != nil {
			return &routes[i], parts[1:]
		}
	}
	return nil, nil
}

// admit counts, authorizes and throttles a call. It returns the call's injected failure, if any.
func (s *Server) admit(r *http.Request, found *route) (*Failure, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls[found.operation]++
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	switch {
	case !s.tokens[token]:
		return nil, &apiError{status: http.StatusUnauthorized, code: "ExpiredAuthenticationToken", message: "The access token expiry is over."}
	case !strings.HasPrefix(strings.ToLower(r.URL.Path), "/subscriptions/"+Subscription):
		return nil, &apiError{status: http.StatusNotFound, code: "SubscriptionNotFound", message: "The subscription could not be found."}
	case r.URL.Query().Get("api-version") != found.version:
		return nil, &apiError{status: http.StatusBadRequest, code: "InvalidApiVersionParameter", message: "The api-version is not " + found.version + "."}
	case s.throttle != 0:
		s.tooMany++
		return nil, tooMany(s.throttle)
	case s.bucket != nil && !s.bucket.Allow():
		s.tooMany++
		return nil, tooMany(time.Second)
	}
	if !s.permitted(found.action) {
		return nil, &apiError{
			status: http.StatusForbidden, code: "AuthorizationFailed",
			message: fmt.Sprintf("The client '%s' with object id 'o' does not have authorization to perform action '%s' over scope '%s' or the scope is invalid.", Client, found.action, r.URL.Path),
		}
	}
	return s.take(found.operation), nil
}

// permitted reports whether the client has a permission.
func (s *Server) permitted(action string) bool {
	if strings.HasPrefix(action, "Microsoft.Compute/locations/") {
		return true
	}
	for _, pattern := range s.actions {
		expression := "(?i)^" + strings.ReplaceAll(regexp.QuoteMeta(pattern), `\*`, ".*") + "$"
		if regexp.MustCompile(expression).MatchString(action) {
			return true
		}
	}
	return false
}

// fail responds with an injected failure.
func (s *Server) fail(w http.ResponseWriter, f *Failure) {
	if f.Cut {
		panic(http.ErrAbortHandler)
	}
	write(w, &apiError{status: f.Status, code: f.Code, message: f.Message, header: f.Header})
}

func (found *route) handle(s *Server, w http.ResponseWriter, r *http.Request, parts []string) error {
	if found.serve != nil {
		return found.serve(s, w, r, parts)
	}
	// The fake servers send on a closed channel when their context ends.
	ctx := context.WithValue(context.WithoutCancel(r.Context()), runtime.CtxAPINameKey{}, found.api)
	request := r.Clone(ctx)
	request.URL.Scheme, request.URL.Host = "https", r.Host
	c := &call{server: s, request: request}
	response, err := c.transport(found.api).Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	for name, values := range response.Header {
		if name != "Fake-Poller-Status" {
			w.Header()[name] = values
		}
	}
	if c.operation != "" {
		w.Header().Set("Azure-AsyncOperation", fmt.Sprintf("%s/subscriptions/%s/providers/Microsoft.Compute/locations/westeurope/operations/%s?api-version=%s", s.URL, Subscription, c.operation, computeVersion))
	}
	w.WriteHeader(response.StatusCode)
	_, err = io.Copy(w, response.Body)
	return err
}

// write responds with an error.
func write(w http.ResponseWriter, err error) {
	var r *apiError
	if !errors.As(err, &r) {
		r = &apiError{status: http.StatusBadRequest, code: "BadRequest", message: err.Error()}
	}
	for name, value := range r.header {
		w.Header().Set(name, value)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(r.status)
	_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]string{"code": r.code, "message": r.message}})
}

// document responds with a JSON document.
func document(w http.ResponseWriter, what any) error {
	w.Header().Set("Content-Type", "application/json")
	return json.NewEncoder(w).Encode(what)
}

// discard is a ResponseWriter that discards the response.
type discard struct{}

func (discard) Header() http.Header { return http.Header{} }

func (discard) Write(text []byte) (int, error) { return len(text), nil }

func (discard) WriteHeader(int) {}

// serveToken implements Microsoft Entra ID.
func (s *Server) serveToken(w http.ResponseWriter, r *http.Request, path string) {
	if strings.HasSuffix(path, ".well-known/openid-configuration") {
		base := s.URL + "/" + Tenant
		_ = document(w, map[string]string{
			"issuer": base + "/v2.0", "authorization_endpoint": base + "/oauth2/v2.0/authorize", "token_endpoint": base + "/oauth2/v2.0/token",
		})
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls["token"]++
	if s.refused || r.FormValue("client_id") != Client || r.FormValue("client_secret") != Secret || r.FormValue("grant_type") != "client_credentials" {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusUnauthorized)
		_ = json.NewEncoder(w).Encode(map[string]any{
			"error": "invalid_client", "error_codes": []int{7000222},
			"error_description": "AADSTS7000222: The provided client secret keys for app '" + Client + "' are expired.",
		})
		return
	}
	s.issued++
	token := fmt.Sprintf("token-%d", s.issued)
	s.tokens[token] = true
	_ = document(w, map[string]any{"token_type": "Bearer", "expires_in": 3600, "ext_expires_in": 3600, "access_token": token})
}
