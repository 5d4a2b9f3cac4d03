package systemd

import (
	"fmt"
	"testing"
	"time"

	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/systemd"
	"github.com/hpad/hpad/targets/targettest"
	"github.com/hpad/hpad/test/systemd/systemdtest"
	"github.com/hpad/hpad/test/wait"
)

// BenchmarkSnapshot reads 50 templates of 10 instances each, without changes.
func BenchmarkSnapshot(b *testing.B) {
	const instances, templates = 500, 50
	m := systemdtest.Start(b)
	f := open(m, nil, func(c *systemd.Config) { c.ResourceInterval = time.Minute })
	defer func() { _ = f.Close() }()
	var refs []targets.Ref
	for i := range templates {
		name := fmt.Sprintf("bench%d@.service", i)
		m.Unit(b, name, "[Service]\nExecStart=/bin/sleep infinity\n")
		refs = append(refs, ref(name))
		if err := f.SetReplicas(b.Context(), ref(name), instances/templates, "", "benchmark"); err != nil {
			b.Fatal(err)
		}
	}
	wait.For(b, patience, "all instances", func() (string, bool) {
		active := len(m.Units(b, "bench*", "active"))
		return fmt.Sprintf("%d active", active), active == instances
	})
	round := func() {
		readings, err := f.Snapshot(b.Context(), refs)
		if err != nil {
			b.Fatal(err)
		}
		if len(readings[refs[0]].Instances) != instances/templates {
			b.Fatalf("%+v", readings[refs[0]])
		}
	}
	round() // the first round subscribes to the units
	targettest.Rounds(b, instances, round)
	m.Control(b, "stop", "bench*")
}
