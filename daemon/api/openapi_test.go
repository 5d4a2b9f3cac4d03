package api_test

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"
	"github.com/google/go-cmp/cmp"

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
		return err
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

// TestDescriptionHasEveryRoute checks that the description has the same paths and methods as the
// handler.
func TestDescriptionHasEveryRoute(t *testing.T) {
	doc, err := description()
	if err != nil {
		t.Fatal(err)
	}
	described := map[string][]string{}
	for path, item := range doc.Paths.Map() {
		described[path] = slices.Sorted(maps.Keys(item.Operations()))
	}
	if diff := cmp.Diff(api.Routes(), described); diff != "" {
		t.Errorf("described routes differ (-served +described):\n%s", diff)
	}
}

// TestDescriptionHasEveryField checks that the schemas have the same fields as the types of the
// responses.
func TestDescriptionHasEveryField(t *testing.T) {
	doc, err := description()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{"Success": true, "Done": true, "Error": true}
	for name, answered := range map[string]reflect.Type{
		"Autoscaler":    reflect.TypeFor[api.Autoscaler](),
		"Explanation":   reflect.TypeFor[api.Explanation](),
		"Discovered":    reflect.TypeFor[api.Discovered](),
		"Cluster":       reflect.TypeFor[api.Cluster](),
		"ClusterMember": reflect.TypeFor[api.ClusterMember](),
		"ClusterFleet":  reflect.TypeFor[api.ClusterFleet](),
		"AdoptRequest":  reflect.TypeFor[api.AdoptRequest](),
		"Recorded":      reflect.TypeFor[api.Recorded](),
		"Verification":  reflect.TypeFor[api.Verification](),
		"Health":        reflect.TypeFor[api.Health](),
		"Readiness":     reflect.TypeFor[api.Readiness](),
		"ConfigText":    reflect.TypeFor[api.ConfigText](),
		"BuildInfo":     reflect.TypeFor[api.BuildInfo](),
		"ReloadChanges": reflect.TypeFor[api.ReloadChanges](),
		"InstanceList":  reflect.TypeFor[api.InstanceList](),
		"Graph":         reflect.TypeFor[api.Graph](),
		"EndpointGroup": reflect.TypeFor[api.EndpointGroup](),

		"PauseRequest": reflect.TypeFor[api.PauseRequest](),
		"ScaleRequest": reflect.TypeFor[api.ScaleRequest](),
	} {
		compareSchema(t, name, answered, openapi3.NewSchemaRef("#/components/schemas/"+name, doc.Components.Schemas[name].Value), seen)
	}
	for name := range doc.Components.Schemas {
		if !seen[name] {
			t.Errorf("schema %s describes no type of a response", name)
		}
	}
}

// compareSchema compares a schema with the type that it describes.
func compareSchema(t *testing.T, at string, answered reflect.Type, ref *openapi3.SchemaRef, seen map[string]bool) {
	t.Helper()
	for answered.Kind() == reflect.Pointer {
		answered = answered.Elem()
	}
	if answered == reflect.TypeFor[policy.Decision]() {
		answered = reflect.TypeFor[api.ShownDecision]()
	}
	schema := ref.Value
	if len(schema.AllOf) == 1 { // a reference with a description
		ref = schema.AllOf[0]
		schema = ref.Value
	}
	if name := strings.TrimPrefix(ref.Ref, "#/components/schemas/"); ref.Ref != "" {
		if seen[name] {
			return
		}
		seen[name] = true
	}
	if got := schema.Type.Slice(); len(got) != 1 || got[0] != schemaType(answered) {
		t.Errorf("%s is described as %v, but is a %s", at, got, schemaType(answered))
		return
	}
	switch {
	case answered == reflect.TypeFor[time.Time]():
		if schema.Format != "date-time" {
			t.Errorf("%s is a time, but is described with the format %q", at, schema.Format)
		}
	case answered.Kind() == reflect.Slice:
		compareSchema(t, at+"[]", answered.Elem(), schema.Items, seen)
	case answered.Kind() == reflect.Map:
		compareSchema(t, at+"{}", answered.Elem(), schema.AdditionalProperties.Schema, seen)
	case answered.Kind() == reflect.Struct:
		fields := map[string]reflect.StructField{}
		collectFields(answered, fields)
		var required []string
		for name, field := range fields {
			property := schema.Properties[name]
			if property == nil {
				t.Errorf("%s.%s is not described", at, name)
				continue
			}
			if !strings.Contains(field.Tag.Get("json"), ",omit") {
				required = append(required, name)
			}
			compareSchema(t, at+"."+name, field.Type, property, seen)
		}
		for name := range schema.Properties {
			if _, ok := fields[name]; !ok {
				t.Errorf("%s.%s is described, but no response contains it", at, name)
			}
		}
		slices.Sort(required)
		if got := slices.Sorted(slices.Values(schema.Required)); !slices.Equal(got, required) {
			t.Errorf("%s: required fields = %v, fields that are always present = %v", at, got, required)
		}
	}
}

// collectFields adds the JSON names of the fields of a struct.
func collectFields(answered reflect.Type, fields map[string]reflect.StructField) {
	for field := range answered.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case name == "-":
		case field.Anonymous:
			collectFields(field.Type, fields)
		case name != "":
			fields[name] = field
		}
	}
}

// schemaType returns the JSON schema type of a Go type.
func schemaType(answered reflect.Type) string {
	switch answered.Kind() {
	case reflect.Bool:
		return "boolean"
	case reflect.Int, reflect.Int32, reflect.Int64, reflect.Uint64:
		return "integer"
	case reflect.Float64:
		return "number"
	case reflect.Slice:
		return "array"
	case reflect.String:
		return "string"
	}
	if answered == reflect.TypeFor[time.Time]() {
		return "string"
	}
	return "object"
}

// TestDescriptionHasEveryEnum checks that the enums in the description have the same values as
// the constants of the types.
func TestDescriptionHasEveryEnum(t *testing.T) {
	doc, err := description()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]string{
		"Case":            words(policy.CaseUnreadable, policy.CaseDisabled, policy.CaseOff, policy.CaseAboveMax, policy.CaseBelowMin, policy.CaseRestored, policy.CaseCommanded, policy.CaseMetrics, policy.CaseMetricsFailed),
		"RescaleReason":   words(policy.MetricAboveTarget, policy.AllBelowTarget, policy.MetricMissing, policy.AboveMax, policy.BelowMin, policy.ForeignChanged, policy.Commanded),
		"MissingUse":      words(policy.UseHold, policy.UseLast, policy.UseMax, policy.UseReplicas),
		"MetricType":      words(policy.ResourceMetric, policy.ContainerResourceMetric, policy.InstancesMetric, policy.ObjectMetric, policy.ExternalMetric),
		"TargetType":      words(policy.UtilizationTarget, policy.ValueTarget, policy.AverageValueTarget),
		"SelectPolicy":    words(policy.MaxChange, policy.MinChange, policy.DisabledChange),
		"PolicyType":      words(policy.InstancesPolicy, policy.PercentPolicy),
		"ConditionStatus": words(policy.ConditionTrue, policy.ConditionFalse, policy.ConditionUnknown),
		"EventKind":       words(policy.NormalEvent, policy.WarningEvent),
		"Direction":       words(policy.Up, policy.Down, policy.BothDirections),
		"HeldBy":          words(policy.HeldByPause, policy.HeldByBreaker, policy.HeldByMode),
		"Mode":            words(policy.ModeRecommend, policy.ModeUpOnly, policy.ModeDownOnly, policy.ModeOff),
		"DiscoveredState": words(api.DiscoveredStates...),
		"DrainState":      words(drain.Waiting, drain.Draining, drain.Drained, drain.Removing, drain.Terminating, drain.Finishing, drain.Undoing, drain.Ended),
		"DrainOutcome":    words(drain.Terminated, drain.Vanished, drain.Undone, drain.Failed),
	} {
		if got := enum(doc.Components.Schemas[name].Value); !slices.Equal(got, want) {
			t.Errorf("enum of %s = %q, want %q", name, got, want)
		}
	}
	if got, want := enum(doc.Components.Schemas["Error"].Value.Properties["errorType"].Value), words(api.ErrorTypes...); !slices.Equal(got, want) {
		t.Errorf("described error types = %q, want %q", got, want)
	}
}

func words[T ~string](values ...T) []string {
	all := make([]string, len(values))
	for i, value := range values {
		all[i] = string(value)
	}
	return all
}

// enum returns the enum values of a schema.
func enum(schema *openapi3.Schema) []string {
	var all []string
	for _, value := range schema.Enum {
		word, _ := value.(string)
		all = append(all, word)
	}
	return all
}

// TestPageHasEveryRoute checks that docs/api.md contains every operation and every error type.
func TestPageHasEveryRoute(t *testing.T) {
	page, err := os.ReadFile("../../docs/api.md")
	if err != nil {
		t.Fatal(err)
	}
	for path, methods := range api.Routes() {
		for _, method := range methods {
			if route := "`" + method + " " + strings.NewReplacer("{name}", "NAME", "{fleet}", "FLEET", "{target}", "TARGET").Replace(path) + "`"; !bytes.Contains(page, []byte(route)) {
				t.Errorf("docs/api.md does not contain %s", route)
			}
		}
	}
	for _, kind := range api.ErrorTypes {
		if !bytes.Contains(page, []byte("| `"+string(kind)+"` |")) {
			t.Errorf("docs/api.md does not describe the error type %s", kind)
		}
	}
}
