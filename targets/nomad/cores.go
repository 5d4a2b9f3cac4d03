package nomad

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
)

// fallbackMHz is what a core of a node counts for whose speed the token may not
// read: utilization stays exact, amounts of cores are then GHz.
const fallbackMHz = 1000

// speeds are the MHz per core of nodes. They are safe for concurrent use.
type speeds struct {
	mu  sync.Mutex
	mhz map[string]float64
}

func newSpeeds() *speeds { return &speeds{mhz: map[string]float64{}} }

// nodeStub is a node in a list.
type nodeStub struct {
	ID            string
	NodeResources *struct {
		Cpu struct {
			CpuShares     int64
			TotalCpuCores uint16
		}
	}
}

// learn reads the nodes of a region when one of those given is unknown. A token that
// may not read nodes is no error.
func (s *speeds) learn(ctx context.Context, session *session, region string, nodes map[string]bool) error {
	if s.knows(nodes) {
		return nil
	}
	var stubs []nodeStub
	_, err := readPages(ctx, session, scope{region: region}, list{path: "/v1/nodes", params: map[string]string{"resources": "true"}, size: jobsPage}, func(node *nodeStub) { stubs = append(stubs, *node) })
	if err != nil && !errors.Is(readError(err), targets.ErrForbidden) {
		return fmt.Errorf("read the speed of nodes: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, node := range stubs {
		if _, known := s.mhz[node.ID]; known || node.NodeResources == nil {
			continue
		}
		if cpu := node.NodeResources.Cpu; cpu.TotalCpuCores > 0 && cpu.CpuShares > 0 {
			s.mhz[node.ID] = float64(cpu.CpuShares) / float64(cpu.TotalCpuCores)
		}
	}
	return nil
}

func (s *speeds) knows(nodes map[string]bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id := range nodes {
		if _, ok := s.mhz[id]; !ok {
			return false
		}
	}
	return true
}

// of returns the MHz of a core of a node, which never changes: what an allocation
// reserves and what it uses must be divided by the same.
func (s *speeds) of(node string) float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	mhz, ok := s.mhz[node]
	if !ok {
		mhz = fallbackMHz
		s.mhz[node] = mhz
	}
	return mhz
}

// cores turns reserved MHz into an amount of cores of so many MHz (R2).
func cores(shares int64, mhz float64) policy.Amount {
	const nanoPerMilli = 1_000_000
	nano := int64(math.Round(float64(shares) / mhz * 1000 * nanoPerMilli))
	milli := (nano + nanoPerMilli - 1) / nanoPerMilli
	return policy.Amount{Resource: "cpu", Milli: milli, RoundedUpNano: int32(milli*nanoPerMilli - nano)}
}

// milliCores turns used MHz into thousandths of a core of so many MHz.
func milliCores(ticks, mhz float64) int64 { return int64(math.Round(ticks / mhz * 1000)) }
