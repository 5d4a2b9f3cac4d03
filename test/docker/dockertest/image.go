package dockertest

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/docker/docker/api/types/image"

	"github.com/hpad/hpad/test/internal/gobuild"
)

// Worker is the name of the image that ImportWorker creates from test/docker/worker.
const Worker = "worker:1"

// worker builds the image's program once per test process.
var worker = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "hpad-worker-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	path := filepath.Join(dir, "worker")
	if err := gobuild.Build(context.Background(), path, "github.com/hpad/hpad/test/docker/worker"); err != nil {
		return nil, err
	}
	return os.ReadFile(path)
})

// ImportWorker creates an image from test/docker/worker. The text marker is written to the file
// /marker, so that images differ. changes are additional Dockerfile lines.
func (e *Engine) ImportWorker(t testing.TB, name, marker string, changes ...string) {
	t.Helper()
	program, err := worker()
	if err != nil {
		t.Fatal(err)
	}
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	for _, file := range []struct {
		name string
		mode int64
		text []byte
	}{{"worker", 0o755, program}, {"marker", 0o644, []byte(marker)}} {
		if err := w.WriteHeader(&tar.Header{Name: file.name, Mode: file.mode, Size: int64(len(file.text))}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(file.text); err != nil {
			t.Fatal(err)
		}
	}
	for _, directory := range []string{"tmp/", "run/"} {
		if err := w.WriteHeader(&tar.Header{Name: directory, Mode: 0o1777, Typeflag: tar.TypeDir}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	response, err := e.Client.ImageImport(t.Context(), image.ImportSource{Source: &archive, SourceName: "-"}, name,
		image.ImportOptions{Changes: append([]string{`ENTRYPOINT ["/worker"]`}, changes...)})
	if err != nil {
		t.Fatalf("import image %s: %v", name, err)
	}
	defer func() { _ = response.Close() }()
	output, err := io.ReadAll(response)
	if err == nil && bytes.Contains(output, []byte(`"error"`)) {
		err = fmt.Errorf("%s", output)
	}
	if err != nil {
		t.Fatalf("import image %s: %v", name, err)
	}
}
