package nomad

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hpad/hpad/targets"
)

// TestPacked packs several allocations, of which one has nothing, and one texts and
// numbers that take more than a byte.
func TestPacked(t *testing.T) {
	long := strings.Repeat("long", 100)
	allocs := []*allocStub{{ID: "a1", Name: "web.app[0]"}, {}, {ID: long, Name: long}}
	allocs[0].AllocatedResources = new(struct {
		Tasks          byName[taskResources]
		TaskLifecycles byName[lifecycle]
		Shared         struct {
			Networks []*network
			Ports    []port
		}
	})
	allocs[0].AllocatedResources.Shared.Ports = []port{{"http", 80, "10.0.0.1"}, {"admin", 65535, "fe80::1"}}
	var of slabs
	want := []targets.Location{
		{Name: "web.app[0]", Addresses: []string{"10.0.0.1", "fe80::1"}, Ports: targets.Ports{{Label: "admin", Number: 65535}, {Label: "http", Number: 80}}},
		{},
		{Name: long},
	}
	for i, packed := range of.pack(allocs) {
		if packed.id() != allocs[i].ID {
			t.Errorf("allocation %d has the id %q, want %q", i, packed.id(), allocs[i].ID)
		}
		if diff := cmp.Diff(want[i], packed.location()); diff != "" {
			t.Errorf("allocation %d (-want +got):\n%s", i, diff)
		}
	}
}

// TestSlabs takes memory for groups that are read together, and for one alone.
func TestSlabs(t *testing.T) {
	together := newSlabs(1000, 1500)
	first, second := together.marks.take(3, &together), together.marks.take(2, &together)
	first[2].id, second[0].id = "c", "d"
	if longer := append(first, mark{id: "e"}); longer[2].id != "c" || second[0].id != "d" {
		t.Errorf("the second group has %v after one was added to the first", second)
	}
	if ab, cd := together.text([]byte("ab")), together.text([]byte("cd")); ab != "ab" || cd != "cd" {
		t.Errorf("the texts are %q and %q", ab, cd)
	}
	if n := len(together.marks.free); n < 100 || n*24 > slabSize {
		t.Errorf("%d marks are left in the slab, want more than 100 and less than a page of them", n)
	}
	for _, alone := range []slabs{newSlabs(20, 20), newSlabs(1000, 3000)} {
		if marks := alone.marks.take(3, &alone); len(marks) != 3 || len(alone.marks.free) != 0 {
			t.Errorf("%d marks for a group of three, and %d besides", len(marks), len(alone.marks.free))
		}
	}
}
