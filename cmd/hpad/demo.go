package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/hpad/hpad/cmd/hpad/demo"
)

func newDemoCommand(stream streams) *cobra.Command {
	var duration time.Duration
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Watch a fleet of processes grow and shrink with its load",
		Long: `Watch a fleet of processes grow and shrink with its load. The demo needs no
configuration, no privileges and no installation: hpad starts worker processes on this
host, puts jobs into a queue for them, and scales the workers by the length of the queue
and by their utilization. It prints each change of the count with its reason.

The exit code is 1 if the fleet did not grow and shrink, unless Ctrl-C interrupted
the demo. The demo never leaves processes behind.`,
		Example: "  hpad demo\n  hpad demo --for 5m",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if duration < demo.MinDuration {
				return wrongUse(fmt.Errorf("--for = %v: must be at least %v", duration, demo.MinDuration),
					"a shorter load is too fast for the fleet")
			}
			return demo.Run(cmd.Context(), stream.out, duration)
		},
	}
	cmd.Flags().DurationVar(&duration, "for", 2*time.Minute, "maximum `duration` of the demo, at least 30s")
	cmd.AddCommand(newDemoWorkerCommand())
	return cmd
}

func newDemoWorkerCommand() *cobra.Command {
	var queue string
	cmd := &cobra.Command{
		Use:    "worker",
		Short:  "Run a worker of the demo",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			worker := os.Getenv("HPAD_INSTANCE")
			if queue == "" || worker == "" {
				return wrongUse(errors.New("a worker needs --queue and the environment variable HPAD_INSTANCE"), "\"hpad demo\" starts its own workers")
			}
			return demo.Work(cmd.Context(), queue, worker)
		},
	}
	cmd.Flags().StringVar(&queue, "queue", "", "`URL` of the queue")
	return cmd
}
