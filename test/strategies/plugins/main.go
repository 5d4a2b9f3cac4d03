// Command plugins runs the strategies of nomad-autoscaler. It reads one evaluation per line from
// standard input, and prints the count that the strategies request.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"

	"github.com/hashicorp/go-hclog"
	fixedvalue "github.com/hashicorp/nomad-autoscaler/plugins/builtin/strategy/fixed-value/plugin"
	passthrough "github.com/hashicorp/nomad-autoscaler/plugins/builtin/strategy/pass-through/plugin"
	targetvalue "github.com/hashicorp/nomad-autoscaler/plugins/builtin/strategy/target-value/plugin"
	threshold "github.com/hashicorp/nomad-autoscaler/plugins/builtin/strategy/threshold/plugin"
	"github.com/hashicorp/nomad-autoscaler/plugins/strategy"
	"github.com/hashicorp/nomad-autoscaler/sdk"
)

// evaluation is one line of the input.
type evaluation struct {
	Count  int64
	Checks []struct {
		Strategy string
		Config   map[string]string
		Value    float64
	}
}

func main() {
	log := hclog.NewNullLogger()
	strategies := map[string]strategy.Strategy{
		"target-value": targetvalue.NewTargetValuePlugin(log),
		"pass-through": passthrough.NewPassThroughPlugin(log),
		"fixed-value":  fixedvalue.NewFixedValuePlugin(log),
		"threshold":    threshold.NewThresholdPlugin(log),
	}
	lines := bufio.NewScanner(os.Stdin)
	out := bufio.NewWriter(os.Stdout)
	for lines.Scan() {
		var e evaluation
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			fail(err)
		}
		var winner *sdk.ScalingAction
		for _, check := range e.Checks {
			result, err := strategies[check.Strategy].Run(&sdk.ScalingCheckEvaluation{
				Check:   &sdk.ScalingPolicyCheck{Name: check.Strategy, Strategy: &sdk.ScalingPolicyStrategy{Name: check.Strategy, Config: check.Config}},
				Metrics: sdk.TimestampedMetrics{{Value: check.Value}},
				Action:  &sdk.ScalingAction{},
			}, e.Count)
			if err != nil {
				fail(err)
			}
			if result != nil {
				winner = sdk.PreemptScalingAction(winner, result.Action)
			}
		}
		count := e.Count
		if winner != nil && winner.Direction != sdk.ScaleDirectionNone {
			count = winner.Count
		}
		fmt.Fprintln(out, count)
		if err := out.Flush(); err != nil {
			fail(err)
		}
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "plugins:", err)
	os.Exit(1)
}
