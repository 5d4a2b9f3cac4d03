package http

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/adapter/adaptertest"
	"github.com/hpad/hpad/targets/targettest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestContract(t *testing.T) {
	suite := targettest.Kind{Of: &Kind}
	targettest.Run(t, adaptertest.Complete(suite, func(t *testing.T, address string, env targets.Env) targets.Fleet {
		config := &Config{URL: address}
		config.SetDefaults()
		config.ResourceInterval, config.Timeout = adaptertest.Interval, 5*time.Second
		fleet, err := config.Build("memory", env)
		if err != nil {
			t.Fatal(err)
		}
		return fleet
	}))
}
