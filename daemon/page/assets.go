package page

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"mime"
	"net/http"
	"path"
)

// assetFiles are the page's own, and uPlot's as its script fetched them.
//
//go:embed assets
var assetFiles embed.FS

// asset serves one file, which browsers keep and ask about by the hash of its content.
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
