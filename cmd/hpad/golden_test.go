package main

import (
	"bytes"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/golden"

	"github.com/hpad/hpad/cmd/hpad/show"
	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/explain"
)

// TestGolden compares the text output of commands with golden files.
func TestGolden(t *testing.T) {
	list := scenarios().List
	pages := map[string]func(io.Writer) error{
		"get.txt":      func(w io.Writer) error { return new(show.Table).Whole(w, slices.Values(list), false, now) },
		"get-wide.txt": func(w io.Writer) error { return new(show.Table).Whole(w, slices.Values(list), true, now) },
		"get-page.txt": func(w io.Writer) error {
			return new(show.Table).Whole(w, slices.Values([]api.Autoscaler{list[0], list[1], list[3]}), false, now)
		},
		"get-fine.txt": func(w io.Writer) error { return new(show.Table).Whole(w, slices.Values(list[2:3]), false, now) },
	}
	for _, view := range list {
		file := strings.ReplaceAll(view.Name, "/", "-") + ".txt"
		pages["describe-"+file] = func(w io.Writer) error { return show.Autoscaler(w, view, api.InstanceList{}, show.MaxInstances, now) }
		pages["explain-"+file] = func(w io.Writer) error { return explain.Write(w, view.Explanation(), time.UTC) }
	}
	for name, page := range pages {
		t.Run(name, func(t *testing.T) {
			var got bytes.Buffer
			if err := page(&got); err != nil {
				t.Fatal(err)
			}
			golden.Assert(t, got.String(), filepath.Join("golden", name))
		})
	}
}
