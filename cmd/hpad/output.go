package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"reflect"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/hpad/hpad/cmd/hpad/show"
)

// outputFormat is how a command writes what it shows.
type outputFormat string

// The output formats. Wide differs from table where a command has more to show.
const (
	outputTable outputFormat = "table"
	outputWide  outputFormat = "wide"
	outputJSON  outputFormat = "json"
	outputYAML  outputFormat = "yaml"
	// outputJSONL is JSON Lines: a line for each item of a list, or one.
	outputJSONL outputFormat = "jsonl"
	// outputName is of the commands that list autoscalers: their names, one a line.
	outputName outputFormat = "name"
)

// outputFormats are those of every command, as help and errors list them.
var outputFormats = []string{string(outputTable), string(outputWide), string(outputJSON), string(outputYAML), string(outputJSONL)}

// encodings are the formats for programs: they have texts as they are.
var encodings = []outputFormat{outputJSON, outputYAML, outputJSONL}

// choice is the value of a flag that is one of a few words.
type choice struct {
	to    *string
	words []string
	kind  string
}

func (c choice) String() string { return *c.to }

func (c choice) Set(text string) error {
	if !slices.Contains(c.words, text) {
		return fmt.Errorf("want one of %s", strings.Join(c.words, ", "))
	}
	*c.to = text
	return nil
}

func (c choice) Type() string { return c.kind }

// addOutputFlag gives a command the flag -o and returns its value, which may also be one
// of those that the command alone has.
func addOutputFlag(cmd *cobra.Command, own ...outputFormat) *outputFormat {
	format, words := outputTable, slices.Clone(outputFormats)
	for _, more := range own {
		words = append(words, string(more))
	}
	cmd.Flags().VarP(choice{(*string)(&format), words, "FORMAT"}, "output", "o", "how to write the answer: "+strings.Join(words, ", "))
	completeFlag(cmd, "output", words...)
	return &format
}

// write writes value as JSON, JSON Lines or YAML, or what text makes for a person.
func write(w io.Writer, format outputFormat, value any, text func(io.Writer) error) error {
	body, err := render(format, value, text)
	if err != nil {
		return err
	}
	return say(w, string(body))
}

// writeList writes what a sequence has as JSON, JSON Lines or YAML, as write writes a slice, item by
// item: nothing before the first. An error ends it where it is, so that nobody takes a
// part for the whole.
func writeList(w io.Writer, format outputFormat, items iter.Seq2[jsontext.Value, error]) error {
	to := bufio.NewWriter(w)
	count := 0
	for item, err := range items {
		if err != nil {
			_ = to.Flush()
			return err
		}
		encoded, err := renderItem(format, item, count == 0)
		if err != nil {
			return err
		}
		count++
		if _, err := to.Write(encoded); err != nil {
			break // Flush has the same error
		}
	}
	switch {
	case format == outputJSONL:
	case count == 0:
		_, _ = to.WriteString("[]\n")
	case format == outputJSON:
		_, _ = to.WriteString("\n]\n")
	}
	if err := to.Flush(); err != nil {
		return fmt.Errorf("write the answer: %w", err)
	}
	return nil
}

// renderItem renders an item of a list with what parts it from the one before.
func renderItem(format outputFormat, item jsontext.Value, first bool) ([]byte, error) {
	if format == outputYAML {
		return render(format, []jsontext.Value{item}, nil)
	}
	if format == outputJSONL {
		line := slices.Clone(item)
		if err := line.Compact(jsontext.PreserveRawStrings(true)); err != nil {
			return nil, fmt.Errorf("encode the answer: %w", err)
		}
		return append(line, '\n'), nil
	}
	opening := ",\n  "
	if first {
		opening = "[\n  "
	}
	encoded, err := jsontext.AppendFormat([]byte(opening), item, jsontext.WithIndentPrefix("  "), jsontext.WithIndent("  "), jsontext.PreserveRawStrings(true))
	if err != nil {
		return nil, fmt.Errorf("encode the answer: %w", err)
	}
	return encoded, nil
}

func render(format outputFormat, value any, text func(io.Writer) error) ([]byte, error) {
	var page bytes.Buffer
	switch format {
	case outputJSON:
		encoder := json.NewEncoder(&page)
		encoder.SetEscapeHTML(false)
		encoder.SetIndent("", "  ")
		if err := encoder.Encode(value); err != nil {
			return nil, fmt.Errorf("encode the answer: %w", err)
		}
		return page.Bytes(), nil
	case outputJSONL:
		return renderLines(value)
	case outputYAML:
		encoded, err := yaml.Marshal(value)
		if err != nil {
			return nil, fmt.Errorf("encode the answer: %w", err)
		}
		return encoded, nil
	default:
		if err := text(&page); err != nil {
			return nil, err
		}
		return bytes.Map(show.Printable, page.Bytes()), nil
	}
}

// renderLines renders a value as JSON Lines: a slice has one for each item.
func renderLines(value any) ([]byte, error) {
	var page bytes.Buffer
	encoder := json.NewEncoder(&page)
	encoder.SetEscapeHTML(false)
	items := []any{value}
	if list := reflect.ValueOf(value); list.Kind() == reflect.Slice {
		items = items[:0]
		for i := range list.Len() {
			items = append(items, list.Index(i).Interface())
		}
	}
	for _, item := range items {
		if err := encoder.Encode(item); err != nil {
			return nil, fmt.Errorf("encode the answer: %w", err)
		}
	}
	return page.Bytes(), nil
}
