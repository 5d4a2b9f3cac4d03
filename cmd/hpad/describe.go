package main

import (
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/hpad/hpad/cmd/hpad/show"
)

func newDescribeCommand(stream streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:        "describe NAME",
		SuggestFor: []string{"inspect", "show"},
		Short:      "Show everything about one autoscaler",
		Long: `Show one autoscaler as "kubectl describe hpa" does: metrics, behavior, conditions
and events; and where its readings come from, how its passes went, and its instances,
as they are now, with what its metrics measure of each. What is no name is taken for a
target, as "hpad get" does.`,
		Example: "  hpad describe checkout",
		Args:    oneName,
	}
	format := addOutputFlag(cmd)
	whole := cmd.Flags().Bool("instances", false, "list all instances, not 20 at most; with -o json and yaml nothing else")
	client := addConnectFlags(cmd)
	cmd.ValidArgsFunction = completeNames(client, 1)
	cmd.RunE = func(cmd *cobra.Command, names []string) error {
		view, name, err := find(cmd.Context(), client(), names[0])
		if err != nil {
			return suggestName(cmd.Context(), client(), names[0], err)
		}
		list, err := client().Instances(cmd.Context(), name)
		if err != nil {
			list.Error = err.Error() // of a target that hangs, for one
		}
		var described any = view
		most := show.MostInstances
		if *whole {
			described, most = list, len(list.Instances)
		}
		return writePage(stream.out, *format, described, func(w io.Writer) error {
			return show.Autoscaler(w, view, list, most, time.Now())
		})
	}
	return cmd
}
