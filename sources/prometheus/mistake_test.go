package prometheus

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/hpad/hpad/sources"
)

// A mistake of a query is not taken for a server that is not well.
func TestMistakes(t *testing.T) {
	for _, test := range []struct {
		name    string
		handler http.HandlerFunc
		mistake bool
	}{
		{"parse error", recorded(t, "400-parse"), true},
		{"execution error", recorded(t, "422-execution"), true},
		{"a range", recorded(t, "200-matrix"), true},
		{"a string", recorded(t, "200-string"), true},
		{"400 of a proxy", answering(400, "text/html", "<html>Bad Request</html>"), false},
		{"timed out", answering(503, "application/json", `{"status":"error","errorType":"timeout","error":"query timed out"}`), false},
		{"overloaded", answering(422, "application/json", `{"status":"error","errorType":"unavailable","error":"too many requests"}`), false},
		{"not allowed", answering(403, "application/json", `{"status":"error","errorType":"bad_data","error":"no"}`), false},
		{"garbled", answering(200, "application/json", `{"status":"success","data":{"resultType":"vector","result":[null]}}`), false},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := newSource(t, serve(t, test.handler).URL, nil).Query(t.Context(), sources.Query{Text: "up"}, time.Unix(1767225600, 0))
			if _, mistake := errors.AsType[*sources.QueryError](err); err == nil || mistake != test.mistake {
				t.Errorf("error %v, a mistake of the query: %v, want %v", err, mistake, test.mistake)
			}
		})
	}
}
