package api

import (
	_ "embed"
	"net/http"
)

// OpenAPI is the description of the API, in OpenAPI 3. It is also served, at
// /api/v1/openapi.yaml.
//
//go:embed openapi.yaml
var OpenAPI []byte

func description(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/yaml")
	_, _ = w.Write(OpenAPI)
}
