package main

import (
	"bytes"
	"errors"
	"io"
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
