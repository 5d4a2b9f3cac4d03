package main

import (
	"testing"

	"github.com/hpad/hpad/daemon/cluster"
	"github.com/hpad/hpad/daemon/config"
)

// TestIsMember checks which users of the web config may forward the names of other users.
func TestIsMember(t *testing.T) {
	view := cluster.View{Members: map[string]cluster.Member{"vm1": {}, "vm2": {}}}
	for _, test := range []struct {
		members config.HAMembers
		user    string
		want    bool
	}{
		{config.HAMembers{Username: "members"}, "members", true},
		{config.HAMembers{Username: "members"}, "vm2", false},
		{config.HAMembers{CertFile: "vm1.crt"}, "vm2", true},
		{config.HAMembers{CertFile: "vm1.crt"}, "alice", false},
		{config.HAMembers{}, "vm2", false},
		{config.HAMembers{}, "", false},
	} {
		if got := isMember(test.members, view, test.user); got != test.want {
			t.Errorf("%q is a member with %+v: %t, want %t", test.user, test.members, got, test.want)
		}
	}
}
