package embedded

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hpad/hpad/sources"
	"github.com/hpad/hpad/sources/sourcetest"
)

func TestContract(t *testing.T) {
	sourcetest.Run(t, sourcetest.Kind{
		Start: func(t *testing.T, env sources.Env) (sources.Source, string) {
			var page strings.Builder
			for queue, value := range sourcetest.Series {
				fmt.Fprintf(&page, "depth{queue=%q} %v\n", queue, value)
			}
			source := started(t, config(newExporter(t, page.String()).address()), env)
			eventually(t, source, "count(depth)", fmt.Sprintf("{} %d", len(sourcetest.Series)))
			return source, "depth"
		},
		Missing: "width",
		Invalid: "sum(",
	})
}
