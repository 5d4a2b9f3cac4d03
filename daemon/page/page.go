// Package page serves the page of the daemon: a list of all autoscalers, and for each one
// why its count is what it is.
//
// All it shows is what the API has, in the words of package explain. Names and messages
// come from strangers, as labels of containers: they get into HTML by html/template and in
// the browser by textContent alone, and the Content-Security-Policy allows nothing inline
// and nothing from elsewhere. All URLs are relative, so that a proxy may put the page below
// a path of its own.
package page

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"time"

	"github.com/klauspost/compress/gzhttp"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/redact"
)

// Daemon is what the page asks of the daemon. What it returns are copies that the caller
// may hold.
type Daemon interface {
	api.Daemon
	// AutoscalerConfig returns the table of an autoscaler in force as TOML, without
	// secrets; empty when there is none of that name.
	AutoscalerConfig(name string) string
}

// Page is the handler of the page. It is safe for concurrent use.
type Page struct {
	daemon Daemon
	// access says who may write, which is who gets buttons.
	access  api.Access
	board   board
	streams streams
	handler http.Handler
}

// New returns the page of a daemon. What is no part of it is for next to answer, which is
// the API that the page itself asks, and whose writes access allows.
func New(d Daemon, access api.Access, next http.Handler) *Page {
	p := &Page{daemon: d, access: access, board: board{daemon: d}, streams: newStreams()}
	compress, err := gzhttp.NewWrapper(gzhttp.ExceptContentTypes([]string{"text/event-stream"}))
	if err != nil {
		panic(err) // its options are constant
	}
	mux := http.NewServeMux()
	mux.Handle("/", next)
	for path, handler := range map[string]http.HandlerFunc{
		"/{$}": p.list, "/rows": p.rows, "/lines": p.lines, "/marks": p.marks, "/changes": p.changes,
		"/autoscalers/{name}": p.autoscaler, "/assets/{file}": asset,
	} {
		mux.Handle("GET "+path, withPolicy(compress(handler)))
	}
	p.handler = mux
	return p
}

// ServeHTTP serves the page, and everything else by what it was made with.
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) { p.handler.ServeHTTP(w, r) }

// Close ends streams, so that the server can end.
func (p *Page) Close() { p.streams.close() }

// policy lets the page load and ask what is its own, and nothing else; no other page may
// show it.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

func withPolicy(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("Content-Security-Policy", policy)
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Referrer-Policy", "same-origin")
		header.Set("Cache-Control", "no-store") // assets say otherwise
		next.ServeHTTP(w, r)
	})
}

//go:embed templates/*.html
var templateFiles embed.FS

var templates = redacted(template.Must(template.New("").Funcs(template.FuncMap{
	"redact": redactValue,
	// redactValue does not find secrets in an escaped text.
	"path": func(name string) string { return url.PathEscape(redact.Text(name)) },
	"rfc3339": func(t time.Time) string {
		return t.UTC().Format(time.RFC3339)
	},
	"utc":   func(t time.Time) string { return t.UTC().Format(time.DateTime) + " UTC" },
	"clock": clock,
	"day":   day,
}).ParseFS(templateFiles, "templates/*.html")))

// frame is what all views have.
type frame struct {
	// Base is the relative URL of the list.
	Base  string
	Title string
	// Zone is what times are in, Now when the view was made.
	Zone *time.Location
	Now  time.Time
	// Author may write; WhyNot is why nobody may who asks so, empty where they may.
	Author, WhyNot string
	Build          api.BuildInfo
}

func (p *Page) frame(r *http.Request, base, title string) frame {
	zone := zoneOf(r)
	f := frame{Base: base, Title: title, Zone: zone, Now: time.Now().In(zone), Build: api.Build()}
	author, err := p.access(r)
	if f.Author = author; err != nil {
		f.WhyNot = "To change something here is a write, " + err.Error() + "."
	}
	return f
}

// MayWrite reports whether who asks gets buttons.
func (f frame) MayWrite() bool { return f.WhyNot == "" }

// ZoneName names the zone, with what it is off UTC.
func (f frame) ZoneName() string {
	if f.Zone == time.UTC {
		return "UTC"
	}
	return fmt.Sprintf("%s (UTC%s)", f.Zone, f.Now.Format("-07:00"))
}

// zoneCookie holds the zone of the browser, as "Europe/Berlin", which its script sets.
const zoneCookie = "zone"

// zoneOf returns the zone of who asks: UTC without a script, or where the system does not
// know it.
func zoneOf(r *http.Request) *time.Location {
	cookie, err := r.Cookie(zoneCookie)
	if err != nil {
		return time.UTC
	}
	name, err := url.QueryUnescape(cookie.Value)
	if err != nil || name == "" || name == "Local" {
		return time.UTC
	}
	zone, err := time.LoadLocation(name)
	if err != nil {
		return time.UTC
	}
	return zone
}

// clock writes an instant as people of today say it, with its day where that is another.
func clock(t, now time.Time) string {
	if t = t.In(now.Location()); t.Format(time.DateOnly) == now.Format(time.DateOnly) {
		return t.Format(time.TimeOnly)
	}
	return t.Format(time.DateTime)
}

// day writes an instant with its day.
func day(t, now time.Time) string { return t.In(now.Location()).Format(time.DateTime) }

// write writes a view, or why there is none.
func write(w http.ResponseWriter, status int, name string, data any) {
	var text bytes.Buffer
	if err := templates.ExecuteTemplate(&text, name, data); err != nil {
		writeError(w, http.StatusInternalServerError, "the page cannot be made: "+err.Error())
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(text.Bytes()) // a client that is gone is told nothing more
}

// writeError writes an error as text without secrets.
func writeError(w http.ResponseWriter, status int, text string) {
	http.Error(w, redact.Text(text), status)
}
