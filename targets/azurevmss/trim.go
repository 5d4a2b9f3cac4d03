package azurevmss

import (
	"bytes"
	"errors"
	"io"
	"net/http"

	azpolicy "github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/go-json-experiment/json/jsontext"
)

// unread are the members of scale sets and machines that nobody here reads, and that
// are most of them: Azure leaves nothing out, and the client decodes a member once for
// each object that it is in.
var unread = map[string]bool{
	"billingProfile": true, "diagnosticsProfile": true, "hardwareProfile": true, "linuxConfiguration": true,
	"networkInterfaceConfigurations": true, "networkProfileConfiguration": true, "scheduledEventsProfile": true,
	"secrets": true, "securityProfile": true, "storageProfile": true, "windowsConfiguration": true,
	"protectedSettings": true, "settings": true,
	"disks": true, "vmAgent": true,
}

// given are members with names that users give, of which none is unread.
const given = "tags"

// trim is a policy of the client's pipeline that leaves what is unread out of what was
// got. A response that cannot be trimmed is the client's as it came.
type trim struct{}

// Do implements azpolicy.Policy.
func (trim) Do(request *azpolicy.Request) (*http.Response, error) {
	response, err := request.Next()
	if err != nil || request.Raw().Method != http.MethodGet || response.StatusCode != http.StatusOK {
		return response, err
	}
	text, err := runtime.Payload(response)
	if err != nil {
		return response, err
	}
	if short, err := trimmed(text); err == nil {
		response.Body = io.NopCloser(bytes.NewReader(short))
	}
	return response, nil
}

// trimmed returns a document without what is unread.
func trimmed(text []byte) ([]byte, error) {
	lenient := []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}
	var short bytes.Buffer
	t := trimmer{jsontext.NewDecoder(bytes.NewReader(text), lenient...), jsontext.NewEncoder(&short, lenient...)}
	if err := t.value(); err != nil {
		return nil, err
	}
	if _, err := t.from.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, errors.New("more follows the document")
	}
	return short.Bytes(), nil
}

// trimmer copies a document.
type trimmer struct {
	from *jsontext.Decoder
	to   *jsontext.Encoder
}

// value copies one value without what is unread.
func (t trimmer) value() error {
	switch t.from.PeekKind() {
	case '{':
		return t.between('}', t.member)
	case '[':
		return t.between(']', t.value)
	}
	return t.whole()
}

// whole copies one value as it is.
func (t trimmer) whole() error {
	value, err := t.from.ReadValue()
	if err != nil {
		return err
	}
	return t.to.WriteValue(value)
}

// between copies an object or an array with all in it.
func (t trimmer) between(end jsontext.Kind, each func() error) error {
	if err := t.token(); err != nil {
		return err
	}
	for t.from.PeekKind() != end {
		if err := each(); err != nil {
			return err
		}
	}
	return t.token()
}

func (t trimmer) token() error {
	token, err := t.from.ReadToken()
	if err != nil {
		return err
	}
	return t.to.WriteToken(token)
}

// member copies one member of an object.
func (t trimmer) member() error {
	token, err := t.from.ReadToken()
	if err != nil {
		return err
	}
	name := token.String()
	if unread[name] {
		return t.from.SkipValue()
	}
	if err := t.to.WriteToken(jsontext.String(name)); err != nil {
		return err
	}
	if name == given {
		return t.whole()
	}
	return t.value()
}
