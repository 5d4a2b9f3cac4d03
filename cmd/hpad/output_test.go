package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

func TestTerminalIsNotSteered(t *testing.T) {
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

// A list that comes item by item is written as one that is there, and one that breaks
// off is no whole one.
func TestListIsWrittenAsItComes(t *testing.T) {
	all := scenarios().List
	all[0].Evaluation.Error = "</b> & \u2028 \xff 5 → 7 \x1b"
	broken := errors.New("broken")
	for _, format := range []outputFormat{outputJSON, outputYAML, outputJSONL} {
		for _, count := range []int{0, 1, len(all)} {
			sequence := func(err error) func(func(jsontext.Value, error) bool) {
				return func(yield func(jsontext.Value, error) bool) {
					for _, view := range all[:count] {
						if encoded, err := json.Marshal(view); !yield(encoded, err) {
							return
						}
					}
					if err != nil {
						yield(nil, err)
					}
				}
			}
			var got, want, part bytes.Buffer
			if err := errors.Join(writeList(&got, format, sequence(nil)), write(&want, format, all[:count], nil)); err != nil {
				t.Fatal(err)
			}
			if got.String() != want.String() {
				t.Errorf("%s of %d:\n%s\nwant\n%s", format, count, &got, &want)
			}
			if err := writeList(&part, format, sequence(broken)); !errors.Is(err, broken) {
				t.Errorf("%s of %d ends with %v, want what broke it", format, count, err)
			}
			if part.String() == want.String() && format == outputJSON || count == 0 && part.Len() > 0 {
				t.Errorf("%s of %d: a part looks like the whole: %s", format, count, &part)
			}
		}
	}
}
