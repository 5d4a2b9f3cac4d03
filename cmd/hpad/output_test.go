package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestControlCharacters(t *testing.T) {
	var out bytes.Buffer
	err := write(&out, outputTable, nil, func(w io.Writer) error {
		_, err := io.WriteString(w, "5 → 7\n\x1b[2Jgone\r\x07\n")
		return err
	})
	if want := "5 → 7\n\uFFFD[2Jgone\uFFFD\uFFFD\n"; err != nil || out.String() != want {
		t.Errorf("wrote %q, %v; want %q", &out, err, want)
	}
	out.Reset()
	report(&out, errors.New("said \x1b]0;title\x07"))
	if want := "hpad: error: said \uFFFD]0;title\uFFFD\n"; out.String() != want {
		t.Errorf("reported %q, want %q", &out, want)
	}
}

func TestInterruptedCheck(t *testing.T) {
	file := filepath.Join(t.TempDir(), "hpad.toml")
	if err := os.WriteFile(file, []byte("[fleets.x]\nkind = \"process\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, flags := range [][]string{nil, {"--live"}} {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errors.New("terminated"))
		var out, failed bytes.Buffer
		code := run(ctx, append([]string{"check", file}, flags...), streams{in: strings.NewReader(""), out: &out, err: &failed})
		if code != 1 || out.Len() > 0 || !strings.Contains(failed.String(), "error: terminated") {
			t.Errorf("%v: exit code %d, %q, %q", flags, code, out.String(), failed.String())
		}
	}
}
