package systemd

import (
	"fmt"
	"testing"

	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/test/internal/wait"
	"github.com/hpad/hpad/test/systemd/systemdtest"
)

// BenchmarkSnapshot reads targets of 100 instances in all.
func BenchmarkSnapshot(b *testing.B) {
	const instances, templates = 100, 10
	m := systemdtest.Start(b)
	f := open(m, nil, nil)
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
	for b.Loop() {
		readings, err := f.Snapshot(b.Context(), refs)
		if err != nil {
			b.Fatal(err)
		}
		if len(readings[refs[0]].Instances) != instances/templates {
			b.Fatalf("%+v", readings[refs[0]])
		}
	}
	m.Control(b, "stop", "bench*")
}
