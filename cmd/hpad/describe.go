package main

import (
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/hpad/hpad/cmd/hpad/show"
)

func newDescribeCommand(stream streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "describe NAME",
		Short: "Show everything about one autoscaler",
		Long: `Show one autoscaler as "kubectl describe hpa" does: metrics, behavior, conditions
and events; and where its readings come from and how its passes went.`,
		Example: "  hpad describe checkout",
		Args:    oneName,
	}
	format := addOutputFlag(cmd)
	client := addConnectFlags(cmd)
	cmd.ValidArgsFunction = completeNames(client, 1)
	cmd.RunE = func(cmd *cobra.Command, names []string) error {
		view, err := client().Autoscaler(cmd.Context(), names[0])
		if err != nil {
			return suggestName(cmd.Context(), client(), names[0], err)
		}
		return write(stream.out, *format, view, func(w io.Writer) error {
			return show.Autoscaler(w, view, time.Now())
		})
	}
	return cmd
}
