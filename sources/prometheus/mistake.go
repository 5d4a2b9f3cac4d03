package prometheus

import (
	"encoding/json"
	"net/http"
	"slices"

	"github.com/hpad/hpad/sources"
)

// mistakeTypes are the types of errors by which the Prometheus API says that it is
// the query that it cannot answer.
var mistakeTypes = []string{"bad_data", "execution"}

// judgeStatus makes the error of an answer a sources.QueryError where the server says
// that the query is to blame: it is well, and answers others.
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
