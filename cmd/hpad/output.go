package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/hpad/hpad/cmd/hpad/show"
)

// outputFormat is the output format of a command.
type outputFormat string

// The output formats. The wide format has more columns only for some commands.
const (
	outputTable outputFormat = "table"
	outputWide  outputFormat = "wide"
	outputJSON  outputFormat = "json"
	outputYAML  outputFormat = "yaml"
	// outputJSONL is JSON Lines with one line for each item in a list.
	outputJSONL outputFormat = "jsonl"
	// outputName prints only names.
	outputName outputFormat = "name"
)

// outputFormats lists the formats that every command supports.
var outputFormats = []string{string(outputTable), string(outputWide), string(outputJSON), string(outputYAML), string(outputJSONL)}

// encodings lists the machine-readable formats, in which strings are unchanged.
var encodings = []outputFormat{outputJSON, outputYAML, outputJSONL}

// choice is a flag value that must be one of several fixed words.
type choice struct {
	to    *string
	words []string
	kind  string
}

func (c choice) String() string { return *c.to }

func (c choice) Set(text string) error {
	if !slices.Contains(c.words, text) {
		return fmt.Errorf("must be one of %s", strings.Join(c.words, ", "))
	}
	*c.to = text
	return nil
}

func (c choice) Type() string { return c.kind }

// addOutputFlag adds the flag -o with the common formats and the command's own formats.
func addOutputFlag(cmd *cobra.Command, own ...outputFormat) *outputFormat {
	format, words := outputTable, slices.Clone(outputFormats)
	for _, more := range own {
		words = append(words, string(more))
	}
	cmd.Flags().VarP(choice{(*string)(&format), words, "FORMAT"}, "output", "o", "output `format`: "+strings.Join(words, ", "))
	completeFlag(cmd, "output", words...)
	return &format
}

// write writes a value as JSON, JSON Lines or YAML. For other formats, it calls text.
func write(w io.Writer, format outputFormat, value any, text func(io.Writer) error) error {
	body, err := render(format, value, text)
	if err != nil {
		return err
	}
	return say(w, string(body))
}

func render(format outputFormat, value any, text func(io.Writer) error) ([]byte, error) {
	var page bytes.Buffer
	switch format {
	case outputJSON:
		encoder := json.NewEncoder(&page)
		encoder.SetEscapeHTML(false)
		encoder.SetIndent("", "  ")
		if err := encoder.Encode(value); err != nil {
			return nil, fmt.Errorf("encode the output: %w", err)
		}
		return page.Bytes(), nil
	case outputJSONL:
		return renderLines(value)
	case outputYAML:
		encoded, err := yaml.Marshal(value)
		if err != nil {
			return nil, fmt.Errorf("encode the output: %w", err)
		}
		return encoded, nil
	default:
		if err := text(&page); err != nil {
			return nil, err
		}
		return bytes.Map(show.Printable, page.Bytes()), nil
	}
}

// renderLines renders a value as JSON Lines, with one line for each item of a slice.
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
			return nil, fmt.Errorf("encode the output: %w", err)
		}
	}
	return page.Bytes(), nil
}
