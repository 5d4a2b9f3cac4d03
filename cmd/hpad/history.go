package main

import (
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/explain"
)

// newHistoryCommand answers "hpad history".
func newHistoryCommand(stream streams) *cobra.Command {
	var since string
	limit := 20
	cmd := &cobra.Command{
		Use:   "history NAME",
		Short: "List what an autoscaler decided before",
		Long: `List the decisions of an autoscaler that changed something or gave a new reason,
oldest first, each with the count before and after and why. They are kept for 7
days, also across restarts and once the autoscaler is deleted.

"hpad explain NAME --at TIME" shows every step of one of them.`,
		Example: "  hpad history checkout\n  hpad history checkout --since 2h -n 100",
		Args:    oneName,
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
		entries, err := client().History(cmd.Context(), names[0], from, time.Time{}, limit)
		if err != nil {
			return suggestName(cmd.Context(), client(), names[0], err)
		}
		return write(stream.out, *format, entries, func(w io.Writer) error {
			if len(entries) == 0 {
				_, err := fmt.Fprintf(stream.err, "Nothing is recorded of %q.\n", names[0])
				return err
			}
			return writeHistory(w, entries)
		})
	}
	return cmd
}

// writeHistory writes entries as a table.
func writeHistory(w io.Writer, entries []api.Recorded) error {
	table := newTable(w)
	_, _ = fmt.Fprintln(table, "TIME\tREPLICAS\tWHY")
	for _, entry := range entries {
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\n", entry.Time.UTC().Format(time.DateTime), changeText(entry), whyText(entry))
	}
	// What the writer could not write is what Flush answers.
	return table.Flush()
}

// changeText writes the count before and after.
func changeText(entry api.Recorded) string {
	d := entry.Decision
	switch {
	case entry.Written != nil:
		return fmt.Sprintf("%d → %d", d.CurrentReplicas, *entry.Written)
	case d.Time.IsZero():
		return unknown
	}
	return strconv.Itoa(int(d.CurrentReplicas))
}

// whyText says why, and what went wrong.
func whyText(entry api.Recorded) string {
	text := explain.Sentence(entry.Decision)
	if entry.Decision.Write && entry.Written == nil {
		text += " It was not written"
		if entry.Error != "" {
			text += ": " + short(entry.Error)
		}
		text += "."
	}
	return text
}
