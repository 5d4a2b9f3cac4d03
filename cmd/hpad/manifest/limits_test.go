package manifest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/hpad/hpad/cmd/hpad/origin"
)

// TestLimits checks that a manifest whose reading would take hours or gigabytes is rejected.
func TestLimits(t *testing.T) {
	var bomb, chain, keys strings.Builder
	bomb.WriteString("a0: &a0 [lol, lol]\n")
	for i := range 30 {
		fmt.Fprintf(&bomb, "a%d: &a%d [%s]\n", i+1, i+1, strings.Repeat(fmt.Sprintf("*a%d, ", i), 9))
	}
	chain.WriteString("b0: &b0 {kind: List, items: []}\n")
	for i := range 5000 {
		fmt.Fprintf(&chain, "b%d: &b%d {kind: List, items: [*b%d]}\n", i+1, i+1, i)
	}
	for i := range 100_000 {
		fmt.Fprintf(&keys, "key%d: 1\n", i)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for name, c := range map[string]struct{ text, message string }{
		"aliases":             {bomb.String(), "aliases"},
		"aliases of a string": {"a: &a " + strings.Repeat("x", 1_000_000) + "\nb: [" + strings.Repeat("*a, ", 50_000) + "]\n", "aliases"},
		"chain of aliases":    {chain.String(), "nested"},
		"recursive alias":     {"a: &a [*a]\n", "contains itself"},
		"arrays":              {"a: " + strings.Repeat("[", 5000) + strings.Repeat("]", 5000), "nested"},
		"very deep arrays":    {"a: " + strings.Repeat("[", 100_000), "not valid YAML"},
		"lists":               {strings.Repeat("{kind: List, items: [", 4000) + strings.Repeat("]}", 4000), "nested"},
		"indentation":         {indented(500), "nested"},
		"keys":                {keys.String(), "keys"},
		"elements":            {"a: [" + strings.Repeat("1,", origin.MaxLines+1) + "]\n", "million lines"},
	} {
		_, _, errs := origin.Read(ctx, []origin.Origin{Origin{}}, []string{"-"}, strings.NewReader(c.text))
		if len(errs) == 0 || !strings.Contains(errs[0].Error(), c.message) {
			t.Errorf("%s: the errors are %.300v, want %q", name, errs, c.message)
		}
	}
}

func indented(levels int) string {
	var text strings.Builder
	for i := range levels {
		text.WriteString(strings.Repeat(" ", i) + "a:\n")
	}
	return text.String()
}

// TestReadFilesEndsWithContext checks that reading an input without an end ends with its context.
func TestReadFilesEndsWithContext(t *testing.T) {
	input, writer := io.Pipe()
	defer func() { _ = writer.Close() }()
	ctx, cancel := context.WithCancelCause(t.Context())
	stopped := errors.New("stopped")
	time.AfterFunc(time.Millisecond, func() { cancel(stopped) })
	if _, _, errs := origin.Read(ctx, []origin.Origin{Origin{}}, []string{"-"}, input); len(errs) != 1 || !errors.Is(errs[0], stopped) {
		t.Errorf("errors: %v", errs)
	}
}
