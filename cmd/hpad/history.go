package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hpad/hpad/cmd/hpad/show"
	"github.com/hpad/hpad/daemon/api"
)

func newHistoryCommand(stream streams) *cobra.Command {
	var since string
	limit := 20
	cmd := &cobra.Command{
		Use:   "history [NAME]",
		Short: "List what was decided before",
		Long: `List the decisions of an autoscaler, or of all, that changed something or gave a
new reason, oldest first, each with the count before and after and why. They are
kept for 7 days, also across restarts and once the autoscaler is deleted.

"hpad explain NAME --at TIME" shows every step of one of them.`,
		Example: "  hpad history\n  hpad history checkout --since 2h -n 100",
		Args:    cobra.MaximumNArgs(1),
	}
	format := addOutputFlag(cmd)
	client := addConnectFlags(cmd)
	cmd.Flags().StringVar(&since, "since", "", "only what came after this `time`: "+instantForms)
	cmd.Flags().IntVarP(&limit, "limit", "n", limit, fmt.Sprintf("the newest so many, at most %d", api.MaxHistoryLimit))
	cmd.ValidArgsFunction = completeNames(client, 1)
	cmd.RunE = func(cmd *cobra.Command, names []string) error {
		var from time.Time
		if since != "" {
			var err error
			if from, err = parseInstant(since, time.Now()); err != nil {
				return wrongUse(fmt.Errorf("--since %w", err), helpHint(cmd))
			}
		}
		if limit < 1 || limit > api.MaxHistoryLimit {
			return wrongUse(fmt.Errorf("--limit %d: must be from 1 to %d", limit, api.MaxHistoryLimit), helpHint(cmd))
		}
		name := strings.Join(names, "")
		entries, err := client().History(cmd.Context(), name, from, time.Time{}, limit)
		if err != nil {
			return suggestName(cmd.Context(), client(), name, err)
		}
		return write(stream.out, *format, entries, func(w io.Writer) error {
			if len(entries) == 0 {
				_, err := io.WriteString(stream.err, "Nothing is recorded.\n")
				return err
			}
			return show.History(w, entries, name == "")
		})
	}
	return cmd
}
