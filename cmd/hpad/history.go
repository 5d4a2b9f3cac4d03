package main

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/explain"
)

// newHistoryCommand answers "hpad history".
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
			return writeHistory(w, entries, name == "")
		})
	}
	return cmd
}

// writeHistory writes entries as a table, with a column for their autoscalers
// where they are of several.
func writeHistory(w io.Writer, entries []api.Recorded, several bool) error {
	table := newTable(w)
	row := func(when, name, replicas, why string) {
		if several {
			when += "\t" + name
		}
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\n", when, replicas, why)
	}
	row("TIME", "NAME", "REPLICAS", "WHY")
	for _, entry := range entries {
		row(entry.Time.UTC().Format(time.DateTime), entry.Autoscaler, explain.Count(entry.Decision, entry.Evaluation()), whyText(entry))
	}
	// What the writer could not write is what Flush answers.
	return table.Flush()
}

// whyText says why, what the configuration changed, and since when the cause was
// there where that is longer than the entry.
func whyText(entry api.Recorded) string {
	said := []string{explain.Sentence(entry.Decision, entry.Evaluation())}
	for _, event := range entry.Events {
		if event.Reason == api.BoundsChanged {
			said = append(said, sentence(event.Message))
		}
	}
	if untold := entry.Untold; untold != nil {
		said = append(said, fmt.Sprintf("Before that causes took turns, %d times from %s on.", untold.Changes, untold.From.UTC().Format(time.TimeOnly)))
	}
	if !entry.Since.IsZero() && entry.Since.Before(entry.Time) {
		said = append(said, "The cause began at "+entry.Since.UTC().Format(time.DateTime)+".")
	}
	return strings.Join(said, " ")
}

// sentence makes a text a sentence.
func sentence(text string) string {
	first, size := utf8.DecodeRuneInString(text)
	return string(unicode.ToUpper(first)) + text[size:] + "."
}
