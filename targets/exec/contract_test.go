package exec

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/go-json-experiment/json"

	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/adapter"
	"github.com/hpad/hpad/targets/adapter/adaptertest"
	"github.com/hpad/hpad/targets/targettest"
)

// addressVariable makes this test binary an adapter that passes all requests to an HTTP server.
const addressVariable = "HPAD_EXECTEST_ADDRESS"

func TestMain(m *testing.M) {
	if address := os.Getenv(addressVariable); address != "" {
		forward(address)
		return
	}
	goleak.VerifyTestMain(m)
}

// forward passes each line of the input to a server, and writes the responses.
func forward(address string) {
	lines := bufio.NewReader(os.Stdin)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		var request adapter.Request
		if err := json.Unmarshal(line, &request); err != nil {
			panic(err)
		}
		response, err := http.Post(address+"/"+string(request.Call), "application/json", bytes.NewReader(line))
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		_, _ = io.Copy(os.Stdout, response.Body)
		_ = response.Body.Close()
	}
}

func TestContract(t *testing.T) {
	suite := targettest.Kind{Of: &Kind}
	targettest.Run(t, adaptertest.Complete(suite, func(t *testing.T, address string, env targets.Env) targets.Fleet {
		config := &Config{Command: []string{os.Args[0]}, Env: map[string]string{addressVariable: address}}
		config.SetDefaults()
		config.ResourceInterval, config.Timeout = adaptertest.Interval, 2*time.Second
		fleet, err := config.Build("memory", env)
		if err != nil {
			t.Fatal(err)
		}
		return fleet
	}))
}
