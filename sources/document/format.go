package document

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/hpad/hpad/sources"
)

// Format is the format of a document.
type Format string

// The values of Format.
const (
	JSON       Format = "json"
	Prometheus Format = "prometheus"
	Number     Format = "number"
)

// CheckQuery returns an error if a query is invalid, and otherwise its selector as described in
// sources.Selector.
func (f Format) CheckQuery(text string) (selector string, err error) {
	switch {
	case f == Number && text != "":
		return "", errors.New(`must be omitted with format = "number", because the document is the value`)
	case f == Number:
		return "", nil
	case text == "" && f == JSON:
		return "", errors.New(`is required: a JSONPath, such as "$.queue.length"`)
	case text == "":
		return "", errors.New("is required: a selector, such as 'queue_length{queue=\"work\"}'")
	case f == JSON:
		path, err := parsePath(text)
		if err != nil {
			return "", err
		}
		return path.selector(), nil
	}
	_, err = parseSelector(text)
	return text, err
}

func (f Format) parse(page Page) (document, error) {
	switch f {
	case JSON:
		return parseJSON(page)
	case Prometheus:
		return parseExposition(page)
	}
	text := strings.TrimSpace(string(page.Text))
	value, err := strconv.ParseFloat(text, 64)
	switch {
	case err == nil:
	case strings.HasPrefix(text, "{"), strings.HasPrefix(text, "["):
		return nil, errors.New(`the document is not a number: for JSON, set format = "json" in the source, and a query in the metric`)
	default:
		return nil, errors.New("the document is not a number")
	}
	return number(value), nil
}

// number is a document that consists of one number.
type number float64

func (n number) collect(_ sources.Query, at, _ time.Time, c *sources.Collector) (string, error) {
	return "", c.Add(float64(n), at)
}
