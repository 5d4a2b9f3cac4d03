package api

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"
)

// pageSize is how many autoscalers a client asks for at once. Over TCP each page may
// cost the check of a password.
const pageSize = 10_000

// Autoscalers returns all autoscalers, by name, without their decisions and events.
func (c *Client) Autoscalers(ctx context.Context) ([]Autoscaler, error) {
	list := []Autoscaler{}
	for view, err := range c.EachAutoscaler(ctx) {
		if err != nil {
			return nil, err
		}
		list = append(list, view)
	}
	return list, nil
}

// EachAutoscaler returns what Autoscalers does, page by page: an autoscaler that is
// there from the first to the last comes once. An error is the last to come.
func (c *Client) EachAutoscaler(ctx context.Context) iter.Seq2[Autoscaler, error] {
	return eachAutoscaler[Autoscaler](ctx, c, false)
}

// EachBriefly is EachAutoscaler with what a table of autoscalers shows, which is some 40 %
// of the bytes. An hpad that knows no such lists returns all of each.
func (c *Client) EachBriefly(ctx context.Context) iter.Seq2[Autoscaler, error] {
	return eachAutoscaler[Autoscaler](ctx, c, true)
}

// EachAutoscalerJSON is EachAutoscaler with what the daemon says of each, as it is.
func (c *Client) EachAutoscalerJSON(ctx context.Context) iter.Seq2[jsontext.Value, error] {
	return eachAutoscaler[jsontext.Value](ctx, c, false)
}

func eachAutoscaler[T any](ctx context.Context, c *Client, brief bool) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for more := ""; ; {
			got, err := askPage[T](ctx, c, more, brief)
			if err != nil {
				yield(*new(T), err)
				return
			}
			for i := range got.Data {
				if !yield(got.Data[i], nil) {
					return
				}
			}
			if more = got.Continue; more == "" {
				return
			}
		}
	}
}

// page is a part of a list, and what asks for what comes after it; "" when there is no
// more. An hpad that knows no pages has all in one.
type page[T any] struct {
	Status   string `json:"status"`
	Data     []T    `json:"data"`
	Continue string `json:"continue"`
}

func askPage[T any](ctx context.Context, c *Client, after string, brief bool) (got page[T], err error) {
	query := url.Values{"limit": {strconv.Itoa(pageSize)}}
	if after != "" {
		query.Set("continue", after)
	}
	if brief {
		query.Set("brief", "true")
	}
	path := "/api/v1/autoscalers?" + query.Encode()
	err = c.ask(ctx, http.MethodGet, path, nil, answerTimeout, func(response *http.Response) error {
		if response.StatusCode != http.StatusOK {
			body, err := io.ReadAll(response.Body)
			if err != nil {
				return err
			}
			return c.open(response.StatusCode, http.MethodGet, path, body, nil)
		}
		body := bufio.NewReader(response.Body)
		start, _ := body.Peek(maxShownStart) // its error comes again
		if err := c.strange(response.StatusCode, start); err != nil {
			return err
		}
		if c.clean != nil {
			whole, err := io.ReadAll(body)
			if err != nil {
				return err
			}
			body.Reset(bytes.NewReader(c.cleaned(whole)))
		}
		if err := got.decode(body); err != nil {
			return c.garbled(response.StatusCode, http.MethodGet, path, err)
		}
		return nil
	})
	return got, err
}

// decode decodes a page as it comes in. The package's own words for what does not fit
// differ from one build to the next.
func (p *page[T]) decode(body io.Reader) error {
	err := json.UnmarshalRead(body, p, jsonv1.FormatDurationAsNano(true), jsontext.AllowDuplicateNames(true))
	misfit, isMisfit := errors.AsType[*json.SemanticError](err)
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("unexpected end of JSON")
	case isMisfit:
		return fmt.Errorf("cannot unmarshal a %s at %s", misfit.JSONKind, misfit.JSONPointer)
	case err != nil:
		return err
	case p.Status != statusSuccess:
		return fmt.Errorf("its status is %q", p.Status)
	case p.Data == nil:
		return errors.New("it has no data")
	}
	return nil
}
