package main

import (
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/hpad/hpad/cmd/hpad/show"
	"github.com/hpad/hpad/daemon/api"
)

func newDescribeCommand(stream streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:        "describe NAME",
		SuggestFor: []string{"inspect", "show"},
		Short:      "Show everything about one autoscaler",
		Long: `Show one autoscaler like "kubectl describe hpa": metrics, behavior, conditions and events;
also the origin of its readings, its evaluations, and its current instances with their
metric values. NAME may also be a target, as in "hpad get".`,
		Example: "  hpad describe checkout",
		Args:    oneName,
	}
	format := addOutputFlag(cmd)
	whole := cmd.Flags().Bool("instances", false, "list all instances instead of at most 20; with -o json and yaml list only instances")
	client := addConnectFlags(cmd)
	cmd.ValidArgsFunction = completeNames(client, 1)
	cmd.RunE = func(cmd *cobra.Command, names []string) error {
		view, name, err := find(cmd.Context(), client(), names[0])
		if err != nil {
			return suggestName(cmd.Context(), client(), names[0], err)
		}
		list, err := api.Get[api.InstanceList](cmd.Context(), client(), api.Path("autoscalers", name, "instances"), nil)
		if err != nil {
			list.Error = err.Error()
		}
		var described any = view
		most := show.MaxInstances
		if *whole {
			described, most = list, len(list.Instances)
		}
		return write(stream.out, *format, described, func(w io.Writer) error {
			return show.Autoscaler(w, view, list, most, time.Now())
		})
	}
	return cmd
}
