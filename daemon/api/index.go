package api

import (
	"io"
	"net/http"
)

// indexPage links what there is to read.
const indexPage = `<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"><title>hpad</title></head>
<body>
<h1>hpad</h1>
<ul>
<li><a href="/api/v1/autoscalers">Autoscalers</a> (one: /api/v1/autoscalers/NAME, its last decision: /api/v1/autoscalers/NAME/explain)</li>
<li><a href="/api/v1/discovery">Targets found by their labels</a></li>
<li><a href="/metrics">Metrics</a></li>
<li><a href="/-/healthy">Health</a></li>
<li><a href="/-/ready">Readiness</a></li>
<li><a href="/api/v1/status/config">Configuration</a></li>
<li><a href="/api/v1/status/buildinfo">Build</a></li>
<li><a href="/api/v1/openapi.yaml">Description of the API</a> (OpenAPI)</li>
</ul>
</body>
</html>
`

func index(w http.ResponseWriter, _ *http.Request) {
	header := w.Header()
	header.Set("Content-Type", "text/html; charset=utf-8")
	header.Set("Content-Security-Policy", "default-src 'none'")
	// A client that is gone is told nothing more.
	_, _ = io.WriteString(w, indexPage)
}
