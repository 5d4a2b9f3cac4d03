package config

import (
	"fmt"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"
)

// BenchmarkParse reads 100,000 autoscalers, 28 MB, as a check and a reload do: those of
// one query that all share, and those of queries, goals and behaviors of their own.
// "alone" is what the parser of TOML needs for the same text.
func BenchmarkParse(b *testing.B) {
	for _, kind := range []string{"shared", "own"} {
		text := benchText(100_000, kind == "own")
		b.Run(kind, func(b *testing.B) {
			for b.Loop() {
				if _, err := Parse("hpad.toml", text); err != nil {
					b.Fatal(err)
				}
			}
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
		})
		b.Run(kind+" alone", func(b *testing.B) {
			for b.Loop() {
				var root map[string]any
				if err := toml.Unmarshal(text, &root); err != nil {
					b.Fatal(err)
				}
			}
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
		})
	}
}

// BenchmarkParseMistake reads 10,000 autoscalers with a mistake in the last one.
func BenchmarkParseMistake(b *testing.B) {
	text := append(benchText(10_000, false), "maximum = 3\n"...)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Parse("hpad.toml", text); err == nil {
			b.Fatal("no mistake")
		}
	}
}

// benchText returns a file of n autoscalers, alike or each with values of its own.
func benchText(n int, own bool) []byte {
	var text strings.Builder
	text.WriteString("[fleets.prod]\nkind = \"nomad\"\naddress = \"http://127.0.0.1:4646\"\n" +
		"[sources.prom]\nkind = \"prometheus\"\nurl = \"http://127.0.0.1:9090\"\n")
	for i := range n {
		fmt.Fprintf(&text, `
[autoscalers.a%06d]
target = { fleet = "prod", job = "a%06d", group = "api" }
min_replicas = 2
max_replicas = 10
`, i, i)
		if own {
			fmt.Fprintf(&text, "behavior.scale_down.stabilization_window = \"%dm\"\n", 1+i%60)
		}
		query, goal := `sum by (queue) (ready)", select = { queue = "a%06d" }`, 30
		if own {
			query, goal = `sum(ready{queue='a%06d'})"`, i+1
		}
		fmt.Fprintf(&text, "[[autoscalers.a%06d.metrics]]\ntype = \"External\"\nname = \"queue\"\nsource = \"prom\"\nquery = \""+
			strings.ReplaceAll(query, ", ", "\n")+"\naverage_value = \"%d\"\n", i, i, goal)
	}
	return []byte(text.String())
}
