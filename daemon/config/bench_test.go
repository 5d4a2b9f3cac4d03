package config

import (
	"fmt"
	"strings"
	"testing"
)

// BenchmarkParse reads 10,000 autoscalers of two metrics, as a reload does:
// once as they should be, once with a mistake in the last one.
func BenchmarkParse(b *testing.B) {
	var text strings.Builder
	text.WriteString("[fleets.local]\nkind = \"process\"\n[sources.prom]\nkind = \"prometheus\"\nurl = \"http://127.0.0.1:9090\"\n")
	const autoscalers = 10_000
	for i := range autoscalers {
		fmt.Fprintf(&text, "[fleets.local.services.s%d]\ncommand = [\"/usr/bin/worker\"]\n", i)
	}
	for i := range autoscalers {
		fmt.Fprintf(&text, `
[autoscalers.a%d]
target = { fleet = "local", service = "s%d" }
max_replicas = 10
[[autoscalers.a%d.metrics]]
type = "Resource"
resource = "cpu"
average_utilization = 60
[[autoscalers.a%d.metrics]]
type = "External"
name = "queue"
source = "prom"
query = "sum by (queue) (ready)"
select = { queue = "q%d" }
average_value = "30"
`, i, i, i, i, i)
	}
	for _, test := range []struct {
		name, more string
		fine       bool
	}{
		{"fine", "", true},
		{"mistake", "maximum = 3\n", false},
	} {
		b.Run(test.name, func(b *testing.B) {
			whole := []byte(text.String() + test.more)
			b.SetBytes(int64(len(whole)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Parse("hpad.toml", whole); (err == nil) != test.fine {
					b.Fatal(err)
				}
			}
		})
	}
}
