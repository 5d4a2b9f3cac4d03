package config

import (
	"reflect"
	"testing"

	"github.com/hpad/hpad/targets/drain"
)

func TestDrainExamples(t *testing.T) {
	type example struct {
		drain   string
		victims drain.Order
	}
	for file, want := range map[string]map[string]example{
		"awsasg.toml":    {"web": {victims: drain.UnhealthyFirst}, "worker": {"nomad", drain.EmptyNomadNodes}},
		"gcemig.toml":    {"web": {"webhook", drain.Oldest}, "workers": {}},
		"azurevmss.toml": {"web": {}, "worker": {"command", drain.Newest}},
	} {
		t.Run(file, func(t *testing.T) {
			path := "../../configs/" + file
			skipOmitted(t, path)
			c, err := LoadFiles(path)
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]example{}
			for _, a := range c.Autoscalers {
				e := example{victims: a.Victims}
				if a.Drain != nil {
					e.drain = a.Drain.Kind
				}
				got[a.Name] = e
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("got %+v, want %+v", got, want)
			}
		})
	}
}
