package api

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/hpad/hpad/settings"
)

// call is one call of the API. openapi.yaml and the list in docs/api.md are generated from it.
type call struct {
	operation
	path string
	// id identifies the call for generators of clients, and tag is its group.
	id, tag string
	// summary describes the call, and returns describes the response. If returns is empty, the
	// summary describes both.
	summary, description, returns string
	// restricted is the object that only clients that may write get, such as "the state". It is
	// empty if every client gets the response.
	restricted string
	// long is set if the response can stay open for a long time. slow is set if it can take longer than
	// writeTimeout to start.
	long, slow bool
	// owner selects the treatment of a call about a fleet that a different member owns.
	owner ownership
	// unhealthy describes the response with status 503 and the same body. It is empty if there is
	// none.
	unhealthy string
	// errors contains the types of errors in addition to those that follow from the other fields.
	errors []ErrorType
}

// ownership is the treatment of a call about a fleet that a different member of the cluster owns.
type ownership int

const (
	// notForwarded means that the queried member performs the call.
	notForwarded ownership = iota
	// forwarded means that the owner performs the call.
	forwarded
	// forwardedAgain is like forwarded, but repeats a call with an unknown outcome.
	forwardedAgain
	// everywhere means that the call is about the fleets of all members.
	everywhere
)

// none is the type of an input or a response without fields.
type none = struct{}

// operation is the implementation of a call with its types.
type operation struct {
	method string
	// input is the struct with the parameters of a GET, or the body of a POST.
	input reflect.Type
	// output is the type of the response, or of its data if media is empty.
	output reflect.Type
	// harmless is set for a POST that changes nothing, so that every client can send it.
	harmless bool
	// media is the Content-Type of a response without the envelope.
	media string
	serve http.HandlerFunc
}

// read returns the operation of a GET. f returns the data of the response.
func read[In, Out any](f func(*http.Request, In) (Out, error)) operation {
	return stream[In, Out]("", result(f))
}

// write returns the operation of a POST. f returns the data of the response.
func write[In, Out any](f func(*http.Request, In) (Out, error)) operation {
	return operation{method: http.MethodPost, input: reflect.TypeFor[In](), output: reflect.TypeFor[Out](), serve: withInput(readBody, result(f))}
}

// compute returns the operation of a POST that changes nothing. f returns the data of the response.
func compute[In, Out any](f func(*http.Request, In) (Out, error)) operation {
	o := write(f)
	o.harmless = true
	return o
}

// stream returns the operation of a GET. f writes the response. media is empty if the response has
// an envelope.
func stream[In, Out any](media string, f func(http.ResponseWriter, *http.Request, In)) operation {
	return operation{method: http.MethodGet, input: reflect.TypeFor[In](), output: reflect.TypeFor[Out](), media: media, serve: withInput(readQuery, f)}
}

func withInput[In any](decode func(*http.Request, any) error, f func(http.ResponseWriter, *http.Request, In)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var in In
		if err := decode(r, &in); err != nil && reflect.TypeFor[In]() != reflect.TypeFor[none]() {
			writeError(w, ErrorBadData, err.Error())
			return
		}
		f(w, r, in)
	}
}

// result returns a function that writes the data or the error that f returns.
func result[In, Out any](f func(*http.Request, In) (Out, error)) func(http.ResponseWriter, *http.Request, In) {
	return func(w http.ResponseWriter, r *http.Request, in In) {
		data, err := f(r, in)
		if err != nil {
			writeFailure(w, err)
			return
		}
		writePage(w, data, "", Warnings(r.Context()))
	}
}

// handler returns the handler of a call.
func (h handlers) handler(c call) http.Handler {
	serve := c.serve
	if c.owner == forwarded || c.owner == forwardedAgain {
		serve = h.owned(serve, c.owner == forwardedAgain)
	}
	if c.long {
		serve = long(serve)
	}
	if c.slow {
		serve = slow(serve)
	}
	switch {
	case c.harmless:
		serve = withBody(serve)
	case c.method == http.MethodPost:
		serve = writing(h.access, withBody(serve))
	case c.restricted != "":
		serve = identified(h.access, c.restricted, serve)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		allowed := []string{c.method}
		if c.method == http.MethodGet {
			allowed = append(allowed, http.MethodHead)
		}
		if slices.Contains(allowed, r.Method) {
			serve(w, WithWarnings(r))
			return
		}
		allow := strings.Join(allowed, ", ")
		w.Header().Set("Allow", allow)
		writeError(w, ErrorMethod, r.URL.Path+" supports "+allow+", not "+r.Method)
	})
}

// slow returns a handler without a time limit for the response.
func slow(handler http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).SetWriteDeadline(time.Time{}) // fails only for writers without deadlines
		handler(w, r)
	}
}

// readQuery sets the fields of a struct, which has the tags of package settings, to the parameters of a
// request. A boolean without a value is true. It does not decode lists, which handlers do themselves.
func readQuery(r *http.Request, into any) error {
	query, table := r.URL.Query(), reflect.ValueOf(into).Elem()
	settings.SetDefaults(into)
	fields := settings.FieldsOf(table.Type())
	for _, key := range fields.Keys {
		to, text := table.FieldByIndex(fields.ByKey[key].Index), query.Get(key)
		if to.Kind() == reflect.Bool && query.Has(key) {
			text = cmp.Or(text, "true")
		}
		var err error
		switch at, isTime := to.Addr().Interface().(*time.Time); {
		case text == "" || to.Kind() == reflect.Slice:
		case isTime:
			if *at, err = Instant(key, text); err != nil {
				return err
			}
		default:
			if err := settings.SetText(to, text); err != nil {
				return fmt.Errorf("%s = %q: %w", key, text, err)
			}
		}
	}
	for _, invalid := range settings.Validate(into) {
		if text := query.Get(invalid.Field); text != "" {
			return fmt.Errorf("%s = %q: %s", invalid.Field, text, invalid.Detail)
		}
	}
	return nil
}

// encodeQuery is the inverse of readQuery. It omits zero values and defaults. from may be nil.
func encodeQuery(from any) string {
	query := url.Values{}
	if from == nil {
		return ""
	}
	fields := settings.FieldsOf(reflect.TypeOf(from))
	for _, key := range fields.Keys {
		field := fields.ByKey[key]
		value, byDefault := reflect.ValueOf(from).FieldByIndex(field.Index), field.Tag.Get("default")
		if text := fmt.Sprint(value); text != byDefault && (!value.IsZero() || value.Kind() == reflect.Bool && byDefault != "") {
			if at, ok := value.Interface().(time.Time); ok {
				text = at.Format(time.RFC3339Nano)
			}
			query.Set(key, text)
		}
	}
	return strings.TrimSuffix("?"+query.Encode(), "?")
}

// failure is an error with the type that the response contains.
type failure struct {
	kind ErrorType
	error
}

func (f *failure) Unwrap() error { return f.error }

// writeFailure writes the response for an error.
func writeFailure(w http.ResponseWriter, err error) {
	if errors.Is(err, ErrMoving) {
		w.Header().Set(movingHeader, "true")
	}
	typed, is := errors.AsType[*failure](err)
	switch {
	case is && typed.kind == ErrorTooMany:
		writeTooMany(w, err.Error())
	case is:
		writeError(w, typed.kind, err.Error())
	default:
		writeError(w, typeOf(err), err.Error())
	}
}
