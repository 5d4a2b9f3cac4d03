package clustertest

import (
	"testing"
	"testing/synctest"

	"github.com/hpad/hpad/daemon/cluster"
)

func TestMemory(t *testing.T) {
	for name, test := range contract {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				memory := NewMemory(1)
				test(t, func() (cluster.Coordinator, func()) {
					c := memory.Connect()
					return c, func() { c.Cut(true, true) }
				})
			})
		})
	}
}
