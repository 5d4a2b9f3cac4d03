package process

import (
	"bufio"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hpad/hpad/targets"
)

// TestLogs checks the output of a failing process, which is then followed until the instance is
// removed.
func TestLogs(t *testing.T) {
	w := newFixture(t, 0)
	file := filepath.Join(w.dir, "fail")
	w.config.Services["crash"] = Service{Command: []string{"sh", "-c", "echo one; echo two; test -e " + file + " && exit 1; sleep 1000"}, Replicas: new(int32(1))}
	w.config.SetDefaults()
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	f := start(t, w.open(t))
	var id string
	logs := func(query targets.LogQuery) string {
		var text strings.Builder
		if err := f.WriteLogs(t.Context(), ref("crash"), id, query, &text); err != nil {
			t.Error(err)
		}
		return text.String()
	}
	eventually(t, func() string {
		reading := read(t, f, "crash")
		if id = ids(reading)[0]; !reading.Locations.At(0).Failing {
			return "the instance is failing"
		}
		return ""
	})
	if got := logs(targets.LogQuery{Lines: 1}); got != "two\n" {
		t.Errorf("the last line is %q", got)
	}
	if got := logs(targets.LogQuery{Lines: 1000}); !strings.HasPrefix(got, "one\ntwo\n") {
		t.Errorf("the output is %q", got)
	}
	if got := logs(targets.LogQuery{Lines: 2, Previous: true}); got != "one\ntwo\n" {
		t.Errorf("the previous output is %q", got)
	}
	if err := f.WriteLogs(t.Context(), ref("crash"), "crash-9", targets.LogQuery{Lines: 1}, &strings.Builder{}); err == nil {
		t.Error("an unknown instance has output")
	}
	output, write := io.Pipe()
	go func() {
		_ = write.CloseWithError(f.WriteLogs(t.Context(), ref("crash"), id, targets.LogQuery{Lines: 1, Follow: true}, write))
	}()
	lines := bufio.NewReader(output)
	if line, err := lines.ReadString('\n'); line != "two\n" {
		t.Errorf("the followed output begins with %q, %v", line, err)
	}
	scale(t, f, "crash", 0)
	if _, err := io.ReadAll(lines); err != nil {
		t.Errorf("the followed output ends with %v", err)
	}
}
