// Package page serves the daemon's web page: a list of all autoscalers, and a view of each
// autoscaler that explains its count.
//
// The page shows data from the API, formatted by package explain. Names and messages are untrusted,
// for example labels of containers. html/template escapes them, the scripts set only textContent,
// and the Content-Security-Policy forbids inline scripts and other origins. All URLs are relative,
// so that a proxy can serve the page below a path.
package page

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"html/template"
	"mime"
	"net/http"
	"net/url"
	"path"
	"time"

	"github.com/klauspost/compress/gzhttp"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/explain"
	"github.com/hpad/hpad/daemon/redact"
)

// Daemon provides the page's data.
type Daemon interface {
	api.Daemon
	// AutoscalerConfig returns the active configuration of an autoscaler as TOML without secrets,
	// or "" if the autoscaler does not exist.
	AutoscalerConfig(name string) string
}

type page struct {
	daemon Daemon
	// access decides whether a client can write. Only such clients see buttons.
	access    api.Access
	snapshots snapshots
}

// New returns a handler that serves the page of a daemon. It forwards other requests to next, the
// handler of the API, which the page also uses.
func New(d Daemon, access api.Access, next http.Handler) http.Handler {
	p := &page{daemon: d, access: access, snapshots: snapshots{daemon: d}}
	mux := http.NewServeMux()
	mux.Handle("/", next)
	for pattern, handler := range map[string]http.HandlerFunc{
		"/{$}": p.list, "/rows": p.rows, "/lines": p.sparklines, "/marks": p.marks,
		"/autoscalers/{name}": p.autoscaler, "/assets/{file}": asset,
	} {
		mux.Handle("GET "+pattern, withPolicy(gzhttp.GzipHandler(handler)))
	}
	return mux
}

// contentPolicy allows only hpad's own resources and prevents every other page from embedding
// hpad's page in a frame.
const contentPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

func withPolicy(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("Content-Security-Policy", contentPolicy)
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Referrer-Policy", "same-origin")
		header.Set("Cache-Control", "no-store") // the handler of assets overrides this
		next.ServeHTTP(w, r)
	})
}

// assetFiles contains hpad's own assets and the script uPlot.
//
//go:embed assets
var assetFiles embed.FS

// Asset returns one of the files in assets, for pages outside the daemon.
func Asset(name string) ([]byte, error) { return assetFiles.ReadFile("assets/" + name) }

// asset serves a file. Browsers cache it and revalidate it by its hash.
func asset(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("file")
	content, err := assetFiles.ReadFile("assets/" + path.Base(name))
	if err != nil {
		writeError(w, http.StatusNotFound, "no such file: "+name)
		return
	}
	sum := sha256.Sum256(content)
	tag := `"` + hex.EncodeToString(sum[:16]) + `"`
	header := w.Header()
	header.Set("ETag", tag)
	header.Set("Cache-Control", "no-cache")
	if r.Header.Get("If-None-Match") == tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	header.Set("Content-Type", mime.TypeByExtension(path.Ext(name)))
	_, _ = w.Write(content)
}

//go:embed templates/*.html
var templateFiles embed.FS

var templates = redacted(template.Must(template.New("").Funcs(template.FuncMap{
	"redact": redactValue,
	// Redact before escaping, because redactValue cannot find secrets in escaped text.
	"path": func(name string) string { return url.PathEscape(redact.Text(name)) },
	"rfc3339": func(t time.Time) string {
		return t.UTC().Format(time.RFC3339)
	},
	"utc":         func(t time.Time) string { return t.UTC().Format(time.DateTime) + " UTC" },
	"clock":       clock,
	"day":         day,
	"oneLine":     explain.OneLine,
	"instance":    explain.InstanceText,
	"stateText":   explain.StateText,
	"unreadyText": explain.InstanceUnreadyText,
	"measured":    explain.MeasuredText,
}).ParseFS(templateFiles, "templates/*.html")))

// frame contains the data that all views share.
type frame struct {
	// Base is the relative URL of the list.
	Base  string
	Title string
	// Zone is the time zone of the view. Now is the current time in that zone.
	Zone *time.Location
	Now  time.Time
	// Author is the name of the client. ReadOnlyReason is the reason why it cannot write, or empty.
	Author, ReadOnlyReason string
	Build                  api.BuildInfo
}

func (p *page) frame(r *http.Request, base, title string) frame {
	zone := zoneOf(r)
	f := frame{Base: base, Title: title, Zone: zone, Now: time.Now().In(zone), Build: api.Build()}
	author, err := p.access(r)
	if f.Author = author; err != nil {
		f.ReadOnlyReason = "Changes need write access, " + err.Error() + "."
	}
	return f
}

// MayWrite reports whether the client can write and sees buttons.
func (f frame) MayWrite() bool { return f.ReadOnlyReason == "" }

// ZoneName returns the name of the time zone with its offset from UTC.
func (f frame) ZoneName() string {
	if f.Zone == time.UTC {
		return "UTC"
	}
	return fmt.Sprintf("%s (UTC%s)", f.Zone, f.Now.Format("-07:00"))
}

// zoneCookie is the cookie with the browser's time zone, for example "Europe/Berlin". A script sets
// it.
const zoneCookie = "zone"

// zoneOf returns the client's time zone, or UTC if it is missing or unknown.
func zoneOf(r *http.Request) *time.Location {
	cookie, err := r.Cookie(zoneCookie)
	if err != nil {
		return time.UTC
	}
	name, err := url.QueryUnescape(cookie.Value)
	if err != nil || name == "" || name == "Local" {
		return time.UTC
	}
	if zone, err := time.LoadLocation(name); err == nil {
		return zone
	}
	return time.UTC
}

// clock formats a time. It includes the date unless both times are on the same day.
func clock(t, now time.Time) string {
	if t = t.In(now.Location()); t.Format(time.DateOnly) == now.Format(time.DateOnly) {
		return t.Format(time.TimeOnly)
	}
	return t.Format(time.DateTime)
}

func day(t, now time.Time) string { return t.In(now.Location()).Format(time.DateTime) }

func write(w http.ResponseWriter, status int, name string, data any) {
	var text bytes.Buffer
	if err := templates.ExecuteTemplate(&text, name, data); err != nil {
		writeError(w, http.StatusInternalServerError, "render the page: "+err.Error())
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(text.Bytes())
}

// writeError writes an error without secrets.
func writeError(w http.ResponseWriter, status int, text string) {
	http.Error(w, redact.Text(text), status)
}
