package daemon

import (
	"slices"
	"testing"

	"github.com/hpad/hpad/daemon/config"
)

// BenchmarkReload measures what a reload costs beside reading the files, where one of
// 100,000 autoscalers changed.
func BenchmarkReload(b *testing.B) {
	const n, changed = 100_000, "autoscaler-000000"
	w := benchWorld(b, n)
	d := New(Options{Load: w.load, Store: nullStore{newMemoryStore()}})
	_ = d.roundsFor(b)
	next := func(limit int32) *config.Config {
		c, err := w.load()
		if err != nil {
			b.Fatal(err)
		}
		for name, a := range c.Autoscalers { // as from files that were read again
			a.Inputs, a.Spec.Metrics = slices.Clone(a.Inputs), slices.Clone(a.Spec.Metrics)
			if name == changed {
				a.Spec.MaxReplicas = limit
			}
			c.Autoscalers[name] = a
		}
		return c
	}
	for limit := int32(11); b.Loop(); limit++ {
		b.StopTimer()
		c, cpu := next(limit), cpuTime(b)
		b.StartTimer()
		c.Adopt(d.labels.File())
		ch, err := d.build(d.labels.Merge(c).Config, d.current.Load())
		if err != nil {
			b.Fatal(err)
		}
		d.swap(ch)
		d.labels.Settle(d.labels.Merge(c))
		b.ReportMetric((cpuTime(b)-cpu).Seconds()*1000, "cpu-ms/reload")
	}
}
