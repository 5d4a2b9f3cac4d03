package nomad

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/hashicorp/nomad/api"

	"github.com/hpad/hpad/targets"
)

// reply is what the headers of a response say. What is missing is zero.
type reply struct {
	// index is that of the last change of what was read.
	index uint64
	// leader means that the server that answered knows one.
	leader bool
	// contact is how long ago that server last heard of it.
	contact time.Duration
}

// replyKey is where a context has the header that a response is to leave.
type replyKey struct{}

// replyOf reads the headers of a response.
func replyOf(header http.Header) reply {
	index, _ := strconv.ParseUint(header.Get("X-Nomad-Index"), 10, 64) // zero where there is none
	contact, _ := strconv.ParseInt(header.Get("X-Nomad-LastContact"), 10, 64)
	return reply{index: index, leader: header.Get("X-Nomad-KnownLeader") == "true", contact: time.Duration(contact) * time.Millisecond}
}

// noteReply leaves the headers of a response where its caller looks for them.
func noteReply(request *http.Request, response *http.Response) {
	if noted, ok := request.Context().Value(replyKey{}).(*reply); ok {
		*noted = replyOf(response.Header)
	}
}

// lenient is how responses are read: that a name comes twice is of no consequence, and
// costs a lot to notice; what tasks wrote may be no UTF-8.
var lenient = []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}

// lenientJSON is the same for one value.
var lenientJSON = json.JoinOptions(lenient...)

// decoders are there to be used again: each holds a buffer as large as what it read.
var decoders = sync.Pool{New: func() any { return new(jsontext.Decoder) }}

// stream reads a list of the API as it comes in, each element by a function, which is
// called until the first error. Params may be nil. What was read before an error is
// good.
func (s *session) stream(ctx context.Context, at scope, path string, params map[string]string, filter string, element func(*jsontext.Decoder) error) (reply, error) {
	return s.fetch(ctx, at, path, params, filter, func(body io.Reader) error { return readList(body, element) })
}

// fetch reads a path of the API by a function that reads the body. Params may be nil.
func (s *session) fetch(ctx context.Context, at scope, path string, params map[string]string, filter string, read func(body io.Reader) error) (reply, error) {
	var headers reply
	ctx, cancel := targets.Bounded(context.WithValue(ctx, replyKey{}, &headers), s.config.Timeout)
	defer cancel()
	options := (&api.QueryOptions{
		Region: at.region, Namespace: at.namespace, AllowStale: s.config.Stale,
		AuthToken: s.token, Params: params, Filter: filter,
	}).WithContext(ctx)
	body, err := s.client.Raw().Response(path, options)
	if err != nil {
		return headers, explain(ctx, err)
	}
	defer func() { _ = body.Close() }()
	if s.config.Stale && !headers.leader {
		return headers, errLeaderless
	}
	return headers, explain(ctx, read(body))
}

// readList reads a JSON array, or null for none, each element by a function.
func readList(body io.Reader, element func(*jsontext.Decoder) error) error {
	decoder, _ := decoders.Get().(*jsontext.Decoder)
	defer func() {
		decoder.Reset(http.NoBody) // hold nothing of the response
		decoders.Put(decoder)
	}()
	decoder.Reset(body, lenient...)
	if decoder.PeekKind() != '[' {
		return json.UnmarshalDecode(decoder, &[]struct{}{})
	}
	if _, err := decoder.ReadToken(); err != nil {
		return err
	}
	for decoder.PeekKind() != ']' {
		if err := element(decoder); err != nil {
			return err
		}
	}
	_, err := decoder.ReadToken()
	return err
}

// each reads a list as stream does, each element as a T, which the function may keep.
func each[T any](ctx context.Context, s *session, at scope, path string, params map[string]string, filter string, take func(*T)) (reply, error) {
	return s.stream(ctx, at, path, params, filter, func(decoder *jsontext.Decoder) error {
		element := new(T)
		if err := json.UnmarshalDecode(decoder, element); err != nil {
			return err
		}
		take(element)
		return nil
	})
}

// eachMember reads an object, each member by a function that reads its value; null is one
// without members. The name is valid until then.
func eachMember(d *jsontext.Decoder, member func(name []byte) error) error {
	token, err := d.ReadToken()
	if err != nil || token.Kind() == 'n' {
		return err
	}
	if token.Kind() != '{' {
		return errForeign
	}
	for d.PeekKind() != '}' {
		name, err := d.ReadValue()
		if err == nil && bytes.IndexByte(name, '\\') >= 0 {
			name, err = jsontext.AppendUnquote([]byte{'"'}, name)
			name = append(name, '"')
		}
		if err == nil {
			err = member(name[1 : len(name)-1])
		}
		if err != nil {
			return err
		}
	}
	_, err = d.ReadToken()
	return err
}

// errForeign is the error of JSON that is not Nomad's.
var errForeign = errors.New("not what Nomad answers")

// number reads a number that is not negative; null is 0.
func number(d *jsontext.Decoder) (uint64, error) {
	value, err := d.ReadValue()
	if err != nil || value.Kind() == 'n' {
		return 0, err
	}
	n := uint64(0)
	for _, digit := range value {
		if digit < '0' || digit > '9' || n > (math.MaxUint64-9)/10 {
			return 0, errForeign
		}
		n = 10*n + uint64(digit-'0')
	}
	return n, nil
}

// appendText reads a text, and appends it.
func appendText(to []byte, d *jsontext.Decoder) ([]byte, error) {
	value, err := d.ReadValue()
	switch {
	case err != nil:
		return to, err
	case value.Kind() != '"':
		return to, errForeign
	case bytes.IndexByte(value, '\\') < 0:
		return append(to, value[1:len(value)-1]...), nil
	}
	return jsontext.AppendUnquote(to, value)
}
