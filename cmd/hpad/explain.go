package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/hpad/hpad/daemon/explain"
)

// newExplainCommand answers "hpad explain".
func newExplainCommand(stream streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "explain NAME",
		Short: "Say why one autoscaler wants the count it wants",
		Long: `Show the record of an autoscaler's last decision, every step with its numbers in
the order of the algorithm, and say it in one sentence. The rules in parentheses
are those of docs/algorithm.md.`,
		Example: "  hpad explain checkout",
		Args:    oneName,
	}
	format := addOutputFlag(cmd)
	client := addConnectFlags(cmd)
	cmd.ValidArgsFunction = completeNames(client, 1)
	cmd.RunE = func(cmd *cobra.Command, names []string) error {
		explanation, err := client().Explain(cmd.Context(), names[0])
		if err != nil {
			return suggestName(cmd.Context(), client(), names[0], err)
		}
		return write(stream.out, *format, explanation, func(w io.Writer) error {
			return explain.Write(w, explanation)
		})
	}
	return cmd
}

// oneName wants exactly one name.
func oneName(cmd *cobra.Command, args []string) error {
	if len(args) == 1 {
		return nil
	}
	return wrongUse(fmt.Errorf("%s wants the name of one autoscaler, and got %d", cmd.Name(), len(args)),
		"\"hpad get\" lists the autoscalers")
}
