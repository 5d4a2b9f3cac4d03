package main

import (
	"fmt"
	"testing"

	"github.com/hpad/hpad/daemon/api"
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

func TestAdoptionTakesAFleet(t *testing.T) {
	differs := map[string]string{"mb": "1.2.4.4"}
	for owner, want := range map[string]string{
		"": "", "mb": "",
		"ma": `fleet "prod" is not adopted: member ma runs it in term 7 with a configuration that differs from that of mb in sources, and would have to hand it over`,
	} {
		c := api.Cluster{Member: "mb", Fleets: []api.ClusterFleet{{Name: "prod", Owner: owner, Term: 7, Configuration: "1.2.3.4", Differs: differs}, {Name: "test", Owner: "ma"}}}
		err := takesFrom(&c, "prod")
		if text := fmt.Sprint(err); want == "" && err != nil || want != "" && text != want {
			t.Errorf("takesFrom() with the owner %q = %v, want %q", owner, err, want)
		}
		if err := takesFrom(&c, "test"); err != nil {
			t.Errorf("takesFrom() with equal configurations = %v", err)
		}
	}
}
