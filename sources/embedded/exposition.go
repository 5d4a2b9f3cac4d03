package embedded

import (
	"errors"
	"fmt"
	"io"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
)

// fallbackType is assumed where an endpoint has no usable one.
const fallbackType = "text/plain"

// exposed is one sample of an exposition.
type exposed struct {
	// text is the series as written; it is only valid until the next sample.
	text  []byte
	value float64
	// at is the timestamp in milliseconds; nil where none is written.
	at *int64
	// labels reads the series' labels.
	labels func(*labels.Labels)
}

// eachSample calls f for every sample of an exposition, and returns how many
// there were until it ended or failed.
func eachSample(body []byte, contentType string, symbols *labels.SymbolTable, f func(exposed) error) (int, error) {
	parser, err := textparse.New(body, contentType, symbols, textparse.ParserOptions{FallbackContentType: fallbackType})
	if parser == nil {
		return 0, fmt.Errorf("content type %q: %w", contentType, err)
	}
	sample := exposed{labels: parser.Labels}
	for count := 0; ; {
		entry, err := parser.Next()
		switch {
		case errors.Is(err, io.EOF):
			return count, nil
		case err != nil:
			return count, fmt.Errorf("parse answer: %w", err)
		case entry != textparse.EntrySeries:
			continue
		}
		count++
		sample.text, sample.at, sample.value = parser.Series()
		if err := f(sample); err != nil {
			return count, err
		}
	}
}
