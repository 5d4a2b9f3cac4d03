package main

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapio"

	"github.com/hpad/hpad/cmd/hpad/show"
)

// TestLogIsPrintable checks that neither the output of a worker nor a field can control the terminal
// that shows the log.
func TestLogIsPrintable(t *testing.T) {
	for _, format := range []string{"console", "json"} {
		var out bytes.Buffer
		log, output, err := (&logFlags{level: "info", format: format}).loggers(&out)
		if err != nil {
			t.Fatal(err)
		}
		worker := &zapio.Writer{Log: output}
		for _, line := range []string{
			"\x1b[2J\x1b[31mcleared", "\x1b]52;c;aGk=\x07copied", "progress 1%\roverwritten", "\u009b2Jcontrol", "\xff\xfeinvalid",
			"\u202ereversed", "nul\x00", "back\b\b\bspace", "\x7f",
		} {
			if _, err := worker.Write([]byte(line + "\n")); err != nil {
				t.Fatal(err)
			}
			log.Info("failed", zap.Error(errors.New(line)))
		}
		text := out.String()
		if lines := strings.Count(text, "\n"); lines != 18 || !strings.Contains(text, "cleared") {
			t.Errorf("%s: got %d lines: %q", format, lines, text)
		}
		if at := strings.IndexFunc(text, func(r rune) bool { return r != '\t' && show.Printable(r) != r }); at >= 0 {
			t.Errorf("%s: the log contains %q", format, text[at:at+10])
		}
	}
}
