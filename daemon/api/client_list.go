package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"

	"github.com/go-json-experiment/json"
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
	return func(yield func(Autoscaler, error) bool) {
		for more := ""; ; {
			page, next, err := c.page(ctx, more)
			if err != nil {
				yield(Autoscaler{}, err)
				return
			}
			for i := range page {
				if !yield(page[i], nil) {
					return
				}
			}
			if next == "" {
				return
			}
			more = next
		}
	}
}

// page returns autoscalers, and what asks for those after them; "" when there are no
// more. An hpad that knows no pages has all of them in one.
func (c *Client) page(ctx context.Context, after string) (page []Autoscaler, more string, err error) {
	query := url.Values{"limit": {strconv.Itoa(pageSize)}}
	if after != "" {
		query.Set("continue", after)
	}
	path := "/api/v1/autoscalers?" + query.Encode()
	err = c.ask(ctx, http.MethodGet, path, answerTimeout, func(response *http.Response) error {
		if response.StatusCode != http.StatusOK {
			body, err := io.ReadAll(response.Body)
			if err != nil {
				return err
			}
			return c.open(response.StatusCode, http.MethodGet, path, body, nil)
		}
		page, more, err = decodePage(response.Body)
		if err != nil {
			return c.garbled(response.StatusCode, http.MethodGet, path, err)
		}
		return nil
	})
	return page, more, err
}

// decodePage decodes a list as it comes in.
func decodePage(body io.Reader) (page []Autoscaler, more string, err error) {
	var answer struct {
		Status   string       `json:"status"`
		Data     []Autoscaler `json:"data"`
		Continue string       `json:"continue"`
	}
	switch err := json.UnmarshalRead(body, &answer, jsonv1.FormatDurationAsNano(true)); {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return nil, "", errors.New("unexpected end of JSON")
	case err != nil:
		return nil, "", err
	case answer.Status != statusSuccess:
		return nil, "", fmt.Errorf("its status is %q", answer.Status)
	case answer.Data == nil:
		return nil, "", errors.New("it has no data")
	}
	return answer.Data, answer.Continue, nil
}
