package query

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/prometheus/prometheus/promql/parser"

	"github.com/hpad/hpad/sources"
)

// TestAbsenceIsBounded checks for any query that the diagnosis is valid PromQL, that the cause is
// bounded, and that it is empty if the result is incomplete. Tests with real servers cover the
// causes.
func TestAbsenceIsBounded(t *testing.T) {
	at := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	long := strings.Repeat("x", 10_000)
	for _, text := range []string{
		"queue", `queue{name="a b\"c\n"}`, `{__name__=~"a|b"}`, `{"with dot", "and space"="é"}`, "sum(rate(a[5m])) / sum(b offset 1h) + c + d + e", "a @ 1700000000",
		"max_over_time(sum(a)[1h:1m])", "rate(a[5m] offset 1d)", `a{l="` + long + `"}`, "absent(a)", "a{job='x',instance=~'y.*'}",
	} {
		a, ok := NewAbsence(text, 0)
		if !ok {
			t.Errorf("NewAbsence(%.50s) returned no diagnosis", text)
			continue
		}
		if _, err := parser.NewParser(parser.Options{}).ParseExpr(a.Query.Text); err != nil {
			t.Errorf("%.50s: %v in %.500s", text, err, a.Query.Text)
		}
		facts := sources.Vector{Series: []sources.Series{{Labels: sources.Labels{{Name: partLabel, Value: wholePart}}}}}
		for i := range maxDiagnosed {
			for range maxExamples {
				facts.Series = append(facts.Series, sources.Series{Labels: sources.Labels{{Name: partLabel, Value: partName("like", i)}, {Name: "label", Value: long}}})
			}
		}
		if cause := a.Cause(facts, at); cause == "" || utf8.RuneCountInString(cause) > maxCause {
			t.Errorf("%.50s: the cause has %d bytes: %.300s", text, len(cause), cause)
		}
		if cause := a.Cause(sources.Vector{Series: facts.Series[1:]}, at); cause != "" {
			t.Errorf("%.50s: cause of a result without the common part = %q, want none", text, cause)
		}
		facts.Warnings = []string{"store unavailable"}
		if cause := a.Cause(facts, at); cause != "" {
			t.Errorf("%.50s: cause of a partial result = %q, want none", text, cause)
		}
	}
	for _, text := range []string{"vector(1)", "sum(", "WITH (x = 1) x"} {
		if _, ok := NewAbsence(text, 0); ok {
			t.Errorf("NewAbsence(%s) returned a diagnosis without a selector", text)
		}
	}
}
