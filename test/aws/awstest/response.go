package awstest

import (
	"encoding/xml"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// element is an XML element with text or children.
type element struct {
	name     string
	text     string
	children []element
}

func text(name, value string) element { return element{name: name, text: value} }

func number(name string, value int) element { return text(name, fmt.Sprint(value)) }

func truth(name string, value bool) element { return text(name, fmt.Sprint(value)) }

func moment(name string, value time.Time) element {
	return text(name, value.UTC().Format("2006-01-02T15:04:05.000Z"))
}

func node(name string, children ...element) element { return element{name: name, children: children} }

// list returns a list element. Its children have the name each, which is "member" or "item".
func list[T any](name, each string, items []T, of func(T) []element) element {
	all := element{name: name}
	for _, item := range items {
		all.children = append(all.children, node(each, of(item)...))
	}
	return all
}

func (e element) write(b *strings.Builder) {
	b.WriteString("<" + e.name + ">")
	_ = xml.EscapeText(b, []byte(e.text)) // a Builder never returns an error
	for _, child := range e.children {
		child.write(b)
	}
	name, _, _ := strings.Cut(e.name, " ")
	b.WriteString("</" + name + ">")
}

type apiError struct {
	status        int
	code, message string
	retryAfter    int
}

func invalid(format string, arguments ...any) *apiError {
	return &apiError{status: http.StatusBadRequest, code: "ValidationError", message: fmt.Sprintf(format, arguments...)}
}

// namespaces maps API versions to XML namespaces.
var namespaces = map[string]string{
	versionAutoScaling: "http://autoscaling.amazonaws.com/doc/2011-01-01/",
	versionEC2:         "http://ec2.amazonaws.com/doc/2016-11-15/",
	versionSTS:         "https://sts.amazonaws.com/doc/2011-06-15/",
}

func writeResult(w http.ResponseWriter, version, name, id string, result element) {
	root := element{name: fmt.Sprintf("%sResponse xmlns=%q", name, namespaces[version])}
	if version == versionEC2 {
		root.children = append([]element{text("requestId", id)}, result.children...)
	} else {
		root.children = []element{{name: name + "Result", children: result.children}, node("ResponseMetadata", text("RequestId", id))}
	}
	send(w, http.StatusOK, root)
}

func writeError(w http.ResponseWriter, version, id string, r *apiError) {
	if r.retryAfter > 0 {
		w.Header().Set("Retry-After", fmt.Sprint(r.retryAfter))
	}
	if version == versionEC2 {
		send(w, r.status, node("Response", node("Errors", node("Error", text("Code", r.code), text("Message", r.message))), text("RequestID", id)))
		return
	}
	kind := "Sender"
	if r.status >= http.StatusInternalServerError {
		kind = "Receiver"
	}
	send(w, r.status, element{name: fmt.Sprintf("ErrorResponse xmlns=%q", namespaces[version]), children: []element{
		node("Error", text("Type", kind), text("Code", r.code), text("Message", r.message)), text("RequestId", id),
	}})
}

func send(w http.ResponseWriter, status int, root element) {
	var b strings.Builder
	b.WriteString(xml.Header)
	root.write(&b)
	w.Header().Set("Content-Type", "text/xml")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(b.String()))
}
