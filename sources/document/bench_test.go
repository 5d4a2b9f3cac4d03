package document

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hpad/hpad/sources"
)

// BenchmarkShared measures one reading of a document with 10,000 values, and its selection for 10,000
// autoscalers with the same query.
func BenchmarkShared(b *testing.B) {
	var services []string
	for i := range 10_000 {
		services = append(services, fmt.Sprintf(`{"service":"shop-%06d","load":%d}`, i, i))
	}
	text := []byte(`{"services":[` + strings.Join(services, ",") + `]}`)
	source := New("local", "document", JSON, limits, sources.NewBudget(256<<20, ""), func(context.Context) (Page, error) { return Page{Text: text}, nil })
	at := time.Now()
	b.ReportAllocs()
	for b.Loop() {
		at = at.Add(time.Second)
		vector, err := source.Query(b.Context(), sources.Query{Text: "$.services[*].load", Labels: []string{"service"}}, at)
		if err != nil || len(vector.Series) != len(services) {
			b.Fatal(err)
		}
		vector.Release()
	}
}
