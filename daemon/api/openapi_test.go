package api_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/api/apitest"
	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets/drain"
)

// description returns the OpenAPI description in strict form: objects may only have the described
// fields.
var description = sync.OnceValues(func() (*openapi3.T, error) {
	for _, text := range []string{"text/html", "application/openmetrics-text"} {
		openapi3filter.RegisterBodyDecoder(text, openapi3filter.FileBodyDecoder)
	}
	loader := openapi3.NewLoader()
	doc, err := loader.LoadFromData(api.OpenAPI)
	if err != nil {
		return nil, err
	}
	if err := doc.Validate(loader.Context); err != nil {
		return nil, err
	}
	for _, schema := range doc.Components.Schemas {
		if len(schema.Value.Properties) > 0 {
			no := false
			schema.Value.AdditionalProperties.Has = &no
		}
	}
	doc.Servers = nil // any host matches
	return doc, nil
})

var router = sync.OnceValues(func() (routers.Router, error) {
	doc, err := description()
	if err != nil {
		return nil, err
	}
	return gorillamux.NewRouter(doc)
})

// checkResponse fails t unless the response matches the description.
func checkResponse(t *testing.T, request *http.Request, response *httptest.ResponseRecorder) {
	t.Helper()
	if err := describedAs(t, request, response); err != nil {
		t.Errorf("%s %s returned %d, which does not match the description: %v", request.Method, request.URL, response.Code, err)
	}
}

// describedAs returns an error if the path, method, status, media type or body of a response does
// not match the description.
func describedAs(t *testing.T, request *http.Request, response *httptest.ResponseRecorder) error {
	t.Helper()
	found, err := router()
	if err != nil {
		t.Fatal(err)
	}
	asked := request.Clone(t.Context())
	if asked.Method == http.MethodHead {
		asked.Method = http.MethodGet
	}
	route, parameters, err := found.FindRoute(asked)
	if err != nil {
		// Other methods of a path return 405; other paths return 404 or a redirect.
		refused := []int{http.StatusForbidden, http.StatusNotFound, http.StatusTemporaryRedirect, http.StatusMovedPermanently}
		if errors.Is(err, routers.ErrMethodNotAllowed) {
			refused = []int{http.StatusForbidden, http.StatusMethodNotAllowed}
		}
		if slices.Contains(refused, response.Code) {
			return nil
		}
		return fmt.Errorf("openapi.yaml lacks the call; run go generate ./daemon/api: %w", err)
	}
	return openapi3filter.ValidateResponse(t.Context(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: &openapi3filter.RequestValidationInput{Request: asked, PathParams: parameters, Route: route},
		Status:                 response.Code,
		Header:                 response.Header(),
		Body:                   io.NopCloser(bytes.NewReader(response.Body.Bytes())),
		Options:                &openapi3filter.Options{IncludeResponseStatus: true, MultiError: true},
	})
}

// TestFullAndEmptyResponses checks that responses with all optional fields, and responses without
// any, match the description.
func TestFullAndEmptyResponses(t *testing.T) {
	var whole api.Autoscaler
	fill(reflect.ValueOf(&whole).Elem())
	whole.Name = "whole"
	var discovered api.Discovered
	fill(reflect.ValueOf(&discovered).Elem())
	var recorded api.Recorded
	fill(reflect.ValueOf(&recorded).Elem())
	recorded.Autoscaler = whole.Name
	reload := api.Recorded{Autoscaler: whole.Name, Time: recorded.Time, Reload: recorded.Reload}
	reload.Reload.Changes[0].Kind, recorded.Reload = config.Changed, nil
	full := &apitest.Daemon{
		List: []api.Autoscaler{whole}, Targets: []api.Discovered{discovered}, TOML: "[daemon]\n",
		Recorded: []api.Recorded{recorded, reload},
	}
	fill(reflect.ValueOf(&full.Verified).Elem())
	fill(reflect.ValueOf(&full.Alive).Elem())
	fill(reflect.ValueOf(&full.State).Elem())
	empty := &apitest.Daemon{List: []api.Autoscaler{{Name: "whole", Spec: policy.Spec{Metrics: []policy.MetricSpec{}}}}}
	for _, path := range []string{
		"/-/healthy", "/-/ready", "/api/v1/autoscalers", "/api/v1/autoscalers/whole", "/api/v1/autoscalers/whole/explain", "/api/v1/autoscalers/whole/instances",
		"/api/v1/autoscalers/whole/history", "/api/v1/history", "/api/v1/history/verify", "/api/v1/autoscalers/whole/explain?at=2026-11-21T12:00:00Z",
		"/api/v1/discovery", "/api/v1/status/config", "/api/v1/status/reload",
	} {
		for _, d := range []*apitest.Daemon{full, empty} {
			if response := send(t, d, api.ReadOnly, httptest.NewRequest(http.MethodGet, path, nil)); response.Code == http.StatusInternalServerError {
				t.Errorf("GET %s returned %s", path, response.Body)
			}
		}
	}
}

// fill sets every exported field to a valid value.
func fill(value reflect.Value) {
	word := map[reflect.Type]string{
		reflect.TypeFor[policy.Case]():            string(policy.CaseMetrics),
		reflect.TypeFor[policy.RescaleReason]():   string(policy.AboveMax),
		reflect.TypeFor[policy.MetricType]():      string(policy.ObjectMetric),
		reflect.TypeFor[policy.TargetType]():      string(policy.ValueTarget),
		reflect.TypeFor[policy.SelectPolicy]():    string(policy.MinChange),
		reflect.TypeFor[policy.PolicyType]():      string(policy.PercentPolicy),
		reflect.TypeFor[policy.ConditionStatus](): string(policy.ConditionTrue),
		reflect.TypeFor[policy.EventKind]():       string(policy.WarningEvent),
		reflect.TypeFor[api.DiscoveredState]():    string(api.DiscoveredActive),
		reflect.TypeFor[policy.Direction]():       string(policy.Down),
		reflect.TypeFor[policy.HeldBy]():          string(policy.HeldByPause),
		reflect.TypeFor[policy.MissingUse]():      string(policy.UseMax),
		reflect.TypeFor[policy.Mode]():            string(policy.ModeUpOnly),
		reflect.TypeFor[drain.State]():            string(drain.Ended),
		reflect.TypeFor[drain.Outcome]():          string(drain.Undone),
	}
	if value.Type() == reflect.TypeFor[time.Time]() {
		value.Set(reflect.ValueOf(noon))
		return
	}
	switch value.Kind() {
	case reflect.Pointer:
		value.Set(reflect.New(value.Type().Elem()))
		fill(value.Elem())
	case reflect.Slice:
		value.Set(reflect.MakeSlice(value.Type(), 1, 1))
		fill(value.Index(0))
	case reflect.Map:
		element := reflect.New(value.Type().Elem()).Elem()
		fill(element)
		value.Set(reflect.MakeMap(value.Type()))
		value.SetMapIndex(reflect.ValueOf("key"), element)
	case reflect.Struct:
		for i := range value.NumField() {
			if field := value.Type().Field(i); field.IsExported() && field.Tag.Get("json") != "-" {
				fill(value.Field(i))
			}
		}
	case reflect.String:
		text := word[value.Type()]
		if text == "" {
			text = "text"
		}
		value.SetString(text)
	case reflect.Bool:
		value.SetBool(true)
	case reflect.Float64:
		value.SetFloat(0.5)
	case reflect.Uint64:
		value.SetUint(7)
	default:
		value.SetInt(7)
	}
}
