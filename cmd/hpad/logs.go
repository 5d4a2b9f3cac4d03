package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/hpad/hpad/cmd/hpad/show"
	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/targets"
)

func newLogsCommand(stream streams) *cobra.Command {
	query := targets.LogQuery{Lines: api.DefaultLogLines}
	cmd := &cobra.Command{
		Use:        "logs NAME [INSTANCE]",
		SuggestFor: []string{"log", "output", "tail"},
		Short:      "Print the output of an instance",
		Long: `Print the last lines of the output of an instance of an autoscaler, for processes, systemd
units and containers of Compose and Swarm. INSTANCE can be omitted if there is only one. The
output can contain secrets.`,
		Example: "  hpad logs checkout\n  hpad logs checkout checkout-3 -f\n  hpad logs checkout checkout-3 -n 1000",
		Args:    cobra.RangeArgs(1, 2),
	}
	client := addConnectFlags(cmd)
	cmd.Flags().BoolVarP(&query.Follow, "follow", "f", false, "also print new output")
	cmd.Flags().IntVarP(&query.Lines, "tail", "n", query.Lines, fmt.Sprintf("`number` of last lines, at most %d", api.MaxLogLines))
	cmd.ValidArgsFunction = completeNames(client, 1)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if query.Lines < 1 || query.Lines > api.MaxLogLines {
			return wrongUse(fmt.Errorf("--tail must be from 1 to %d", api.MaxLogLines), helpHint(cmd))
		}
		_, name, err := find(cmd.Context(), client(), args[0])
		if err != nil {
			return suggestName(cmd.Context(), client(), args[0], err)
		}
		instance := append(args, "")[1]
		empty := true
		err = client().Logs(cmd.Context(), name, instance, query, func(line string) error {
			empty = false
			_, err := fmt.Fprintln(stream.out, show.Clean(line))
			return err
		})
		if cmd.Context().Err() != nil {
			return nil // Ctrl-C
		}
		if err == nil && empty {
			notice(stream.err, "note", "the instance has written no output; \"hpad describe %s\" shows its state", name)
		}
		return err
	}
	return cmd
}
