package httpclient

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

func TestStampFiles(t *testing.T) {
	dir := t.TempDir()
	ca, cert := filepath.Join(dir, "ca"), filepath.Join(dir, "cert")
	write := func(path, text string, modified time.Time) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, modified, modified); err != nil {
			t.Fatal(err)
		}
	}
	noon := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	write(ca, "one", noon)
	last := StampFiles(ca, "", cert)
	if len(last) != 2 || !slices.Equal(last, StampFiles(ca, cert)) {
		t.Fatalf("stamps %+v of an existing and a missing file differ from later stamps of the same files", last)
	}
	for _, step := range []struct {
		name   string
		change func()
	}{
		{"changed time", func() { write(ca, "two", noon.Add(time.Millisecond)) }},
		{"changed size", func() { write(ca, "three", noon.Add(time.Millisecond)) }},
		{"new file", func() { write(cert, "", noon) }},
		{"deleted file", func() {
			if err := os.Remove(ca); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		step.change()
		now := StampFiles(ca, cert)
		if slices.Equal(last, now) {
			t.Errorf("%s was not detected", step.name)
		}
		last = now
	}
}
