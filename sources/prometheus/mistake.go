package prometheus

import (
	"encoding/json"
	"net/http"
	"slices"

	"github.com/hpad/hpad/sources"
)

// mistakeTypes are the types of errors of the Prometheus API that blame the query.
var mistakeTypes = []string{"bad_data", "execution"}

// judgeStatus makes an error a sources.QueryError where the server blames the query.
func judgeStatus(status int, body []byte, err error) error {
	var answer struct {
		ErrorType string `json:"errorType"`
	}
	blamed := status == http.StatusBadRequest || status == http.StatusUnprocessableEntity
	if blamed && json.Unmarshal(body, &answer) == nil && slices.Contains(mistakeTypes, answer.ErrorType) {
		return &sources.QueryError{Err: err}
	}
	return err
}
