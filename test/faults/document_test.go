package faults

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hpad/hpad/test/internal/program"
	"github.com/hpad/hpad/test/scale/sim"
)

// document returns a misbehavior that sends a JSON document.
func document(text string, headers ...string) misbehavior {
	return respond(200, "application/json", text, headers...)
}

// beginAndHang sends the beginning of a document and then nothing.
func beginAndHang(_ *front, w http.ResponseWriter, r *http.Request) {
	_, _ = io.WriteString(w, `{"services":[{"service":"shop-`)
	_ = http.NewResponseController(w).Flush()
	<-r.Context().Done()
}

// documentFaults lists faults of an http source. why matches the error that hpad reports.
var documentFaults = []fault{
	{"hangs", hang, "no complete document within the timeout of 1s"},
	{"hangs in the body", beginAndHang, `incomplete after 30 bytes.*timeout of 1s.*services.*shop-`},
	{"resets the connection during the response", reset, "connection reset|EOF"},
	{"trickles a byte a second", trickle, "no complete document within the timeout of 1s"},
	{"returns a page with 200", respond(200, "text/html", loginPage), `page of type "text/html".*Sign in`},
	{"returns 401", respond(401, "text/plain", "who are you?"), `401 Unauthorized instead of 200 OK: "who are you\?"; check the credentials`},
	{"returns 403", respond(403, "text/plain", "not for you"), `403 Forbidden instead of 200 OK: "not for you"; check the credentials`},
	{"returns 204", respond(204, "application/json", ""), "204 No Content instead of 200 OK"},
	{"returns 500", respond(500, "text/plain", "boom"), `500 Internal Server Error instead of 200 OK: "boom"`},
	{"returns 503", respond(503, "text/plain", "starting"), "503 Service Unavailable"},
	{"returns 429 with Retry-After", respond(429, "text/plain", "slow down", "Retry-After", "1"), "429 Too Many Requests"},
	{"redirects", respond(302, "text/plain", "", "Location", "https://login.example.org/"), `302 Found to "https://login.example.org/"`},
	{"redirects to itself", respond(307, "text/plain", "", "Location", "/loads"), "307 Temporary Redirect"},
	{"returns an empty body", document(""), "unexpected EOF; the document is empty"},
	{"returns a part of a document", document(`{"services":[{"service":"shop-000001","load":1`), "not complete and valid JSON.*shop-000001"},
	{"returns text instead of JSON", respond(200, "text/plain", "services 1"), `of type "text/plain" is not complete and valid JSON.*"services 1"`},
	{"returns other JSON", document(`[1,{"a":null}]`), `selects no value; the document is "\[1,`},
	{"returns an old document", document(`{"services":[]}`, "Age", "3600"), "the document is 1h0m0s old, and max_age = 5m0s"},
	{"returns a name twice", document(`{"services":[],"services":[]}`), "duplicate object member"},
}

// brokenValues lists faults of the value in a document, which replaces the whole list of services.
var brokenValues = map[string]string{
	`"NaN"`: "not a number", `"+Inf"`: `infinite \(\+Inf`, "-5": "negative values are rejected", "1e300": `value 1e\+300 does not fit`, "1e999": "out of range",
	"null": "null instead of a number", `"many"`: `the string "many" instead of a number`, "true": "true instead of a number", "[1]": "an array of 1 elements instead of a number", "{}": "an object instead of a number",
}

// endlessDocument sends a document that never ends.
func endlessDocument(_ *front, w http.ResponseWriter, r *http.Request) {
	_, _ = io.WriteString(w, `{"services":[`)
	for r.Context().Err() == nil {
		if _, err := io.WriteString(w, strings.Repeat(`{"service":"x","load":1},`, 1000)); err != nil {
			return
		}
	}
}

// TestDocument runs all faults of documents at the same time, each with its own http source.
func TestDocument(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 120, 3)
	sources := 0
	add := func(f *front, more ...string) *victim {
		source := fmt.Sprintf("d%d", sources)
		sources++
		fmt.Fprintf(&w.config, "[sources.%s]\nkind = \"http\"\nurl = \"%s/loads\"\n%s%s\n", source, f.url(), lasting, strings.Join(more, ""))
		v := &victim{world: w, front: f}
		v.name, v.number = w.autoscalerOf("steady", source, func(number int) string { return "query         = '" + sim.LoadInDocument(number) + "'" })
		return v
	}
	var tests []subtest
	for _, fault := range documentFaults {
		tests = append(tests, add(newFront(t, w.prometheus)).subtest(fault))
	}
	for value, why := range brokenValues {
		v := add(newFront(t, w.prometheus))
		text := fmt.Sprintf(`{"services":[{"service":%q,"load":%s}]}`, v.name, value)
		tests = append(tests, v.subtest(fault{"returns " + value, document(text), why}))
	}
	tests = append(tests,
		add(newFront(t, w.prometheus)).subtest(fault{"returns gigabytes", endlessDocument, `more than 1048576 bytes \(max_size = "1Mi"\)`}),
		add(newFront(t, w.prometheus)).subtest(fault{"returns a gzip bomb", bomb, `Content-Encoding "gzip", which was not requested`}))
	tests = append(tests, connectionFaults(t, w.prometheus, add)...)
	w.runFaults(t, append(tests, tokenTests(t, w.prometheus, add)...))
}

// programFaults lists scripts that replace the program of an exec source. why matches the error that hpad
// reports.
var programFaults = []struct{ name, script, why string }{
	{"exits with 3", "#!/bin/sh\necho starting >&2\necho 'relation \"jobs\" does not exist' >&2\nexit 3\n", `exit status 3: relation "jobs" does not exist`},
	{"exits with 1 after its output", "#!/bin/sh\necho 1\nexit 1\n", "exit status 1"},
	{"is killed", "#!/bin/sh\nkill -9 $$\n", "signal: killed"},
	{"sleeps", "#!/bin/sh\nsleep 600\n", "killed: no complete document within the timeout of 1s"},
	{"sleeps in a child process", "#!/bin/sh\nsleep 600 & wait\n", "killed: no complete document within the timeout of 1s"},
	{"ignores signals", "#!/bin/sh\ntrap '' TERM INT HUP PIPE\nwhile :; do :; done\n", "killed: no complete document within the timeout of 1s"},
	{"prints nothing", "#!/bin/sh\n", "unexpected EOF; the document is empty"},
	{"prints text", "#!/bin/sh\necho 'no such queue'\n", `not complete and valid JSON.*"no such queue"`},
	{"prints a part of a document", "#!/bin/sh\nprintf '{\"services\":[{'\n", "not complete and valid JSON"},
	{"prints endless output", "#!/bin/sh\nyes\n", "killed: the output has more than 1048576 bytes"},
	{"has no interpreter", "#!/nonexistent/python\n", "interpreter of .*: stat /nonexistent/python"},
}

// install replaces a program. It renames a file, because the kernel does not execute a file that is open for
// writing.
func install(t testing.TB, path, script string) {
	if err := os.WriteFile(path+".new", []byte(script), 0o700); err != nil {
		t.Error(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Error(err)
	}
}

// readLoads is a script that prints the document /loads of a server at HOST/PORT.
const readLoads = `#!/bin/bash
exec 3<>/dev/tcp/%s
printf 'GET /loads HTTP/1.0\r\n\r\n' >&3
sed '1,/^\r$/d' <&3
`

// TestProgram runs all faults of programs at the same time, each with its own exec source.
func TestProgram(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 60, 3)
	loads := newFront(t, w.prometheus)
	var tests []subtest
	add := func(name, why string, begin func(path string)) {
		source, path := fmt.Sprintf("p%d", len(tests)), filepath.Join(t.TempDir(), "program")
		correct := fmt.Sprintf(readLoads, strings.Replace(loads.address, ":", "/", 1))
		install(t, path, correct)
		fmt.Fprintf(&w.config, "[sources.%s]\nkind = \"exec\"\ncommand = [%q]\nformat = \"json\"\n%s\n", source, path, lasting)
		v := &victim{world: w}
		v.name, v.number = w.autoscalerOf("steady", source, func(number int) string { return "query         = '" + sim.LoadInDocument(number) + "'" })
		tests = append(tests, subtest{name, func(t *testing.T, p *program.Program) {
			v.withstand(t, p, func() { begin(path) }, func() { install(t, path, correct) }, why)
		}})
	}
	for _, fault := range programFaults {
		add(fault.name, fault.why, func(path string) { install(t, path, fault.script) })
	}
	add("is missing", "no such file or directory", func(path string) { _ = os.Remove(path) })
	w.runFaults(t, tests)
}
