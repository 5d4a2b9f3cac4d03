package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hpad/hpad/cmd/hpad/show"
	"github.com/hpad/hpad/daemon/api"
)

func newHistoryCommand(stream streams) *cobra.Command {
	var options historyFlags
	cmd := &cobra.Command{
		Use:        "history [NAME]",
		SuggestFor: []string{"events"},
		Short:      "List earlier decisions",
		Long: `List the decisions of one or all autoscalers that changed the count or the reason of a
condition, oldest first, with the count before and after and the cause. The list also
includes configuration changes. Entries are stored for 7 days, also across restarts and
after the autoscaler is deleted.

Times are in the time zone of TZ. --changes selects entries with a change of the count, the
bounds, a pause or the configuration.

With --follow the command also prints new entries, until Ctrl-C.

With --verify the daemon recomputes each decision from its recorded inputs and compares the
results. The exit code is 1 if a result differs or an entry is damaged. Entries of other
versions of hpad cannot be verified, which is not a failure.

"hpad explain NAME --at TIME" shows every step of a decision.`,
		Example: "  hpad history\n  hpad history checkout --since 2h -n 100\n  hpad history --since yesterday --until today --changes\n  hpad history --verify",
		Args:    cobra.MaximumNArgs(1),
	}
	format := addOutputFlag(cmd)
	client := addConnectFlags(cmd)
	options.add(cmd)
	cmd.ValidArgsFunction = completeNames(client, 1)
	cmd.RunE = func(cmd *cobra.Command, names []string) error {
		query, err := options.query(cmd)
		if err != nil {
			return err
		}
		name := strings.Join(names, "")
		switch {
		case options.verify:
			return verifyHistory(cmd, stream, client(), *format, name, query)
		case options.following:
			return followHistory(cmd, stream, client(), *format, name, query, &options.table)
		}
		entries, err := client().History(cmd.Context(), name, query)
		if err != nil {
			return suggestName(cmd.Context(), client(), name, err)
		}
		return write(stream.out, *format, entries, func(w io.Writer) error {
			if len(entries) == 0 {
				_, err := io.WriteString(stream.err, "No decisions are recorded.\n")
				return err
			}
			return options.table.History(w, entries, name == "", time.Local)
		})
	}
	return cmd
}

type historyFlags struct {
	since, until               string
	changes, following, verify bool
	table                      show.Table
	limit                      int
}

func (f *historyFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.since, "since", "", "only entries after this `time`: "+instantForms)
	flags.StringVar(&f.until, "until", "", "only entries before this `time`")
	flags.BoolVar(&f.changes, "changes", false, "only changes of the count, the bounds, a pause or the configuration")
	flags.BoolVarP(&f.following, "follow", "f", false, "also print new entries")
	flags.BoolVar(&f.verify, "verify", false, "recompute every recorded decision and compare the results")
	flags.BoolVar(&f.table.Headless, "no-headers", false, "omit the header of the table")
	flags.IntVarP(&f.limit, "limit", "n", 20, fmt.Sprintf("`number` of newest entries, at most %d", api.MaxHistoryLimit))
}

// query returns the history query that the flags describe.
func (f *historyFlags) query(cmd *cobra.Command) (api.HistoryQuery, error) {
	query := api.HistoryQuery{Changes: f.changes, Limit: f.limit}
	for _, bound := range []struct {
		flag, text string
		at         *time.Time
	}{{"since", f.since, &query.From}, {"until", f.until, &query.To}} {
		if bound.text == "" {
			continue
		}
		var err error
		if *bound.at, err = parseInstant(bound.text, time.Now()); err != nil {
			return query, wrongUse(fmt.Errorf("--%s %w", bound.flag, err), helpHint(cmd))
		}
	}
	if !query.To.IsZero() && !query.From.Before(query.To) {
		return query, wrongUse(fmt.Errorf("--since %s is not before --until %s", f.since, f.until), helpHint(cmd))
	}
	if f.limit < 1 || f.limit > api.MaxHistoryLimit {
		return query, wrongUse(fmt.Errorf("--limit %d: must be from 1 to %d", f.limit, api.MaxHistoryLimit), helpHint(cmd))
	}
	if !f.verify {
		return query, nil
	}
	for _, flag := range []string{"changes", "follow", "limit"} {
		if cmd.Flags().Changed(flag) {
			return query, wrongUse(fmt.Errorf("--verify and --%s are mutually exclusive", flag), helpHint(cmd))
		}
	}
	return query, nil
}

// followHistory writes the entries that match a query, and then new entries.
func followHistory(cmd *cobra.Command, stream streams, client *api.Client, format outputFormat, name string, query api.HistoryQuery, table *show.Table) error {
	err := format.rejectJSON("--follow")
	if !query.To.IsZero() {
		err = errors.New("--follow and --until are mutually exclusive")
	}
	if err != nil {
		return wrongUse(err, helpHint(cmd))
	}
	var cursor historyCursor
	started := false
	return follow(cmd.Context(), stream.err, func() error {
		entries, err := client.History(cmd.Context(), name, query)
		if err != nil {
			return suggestName(cmd.Context(), client, name, err)
		}
		if started && len(entries) == api.MaxHistoryLimit {
			notice(stream.err, "warning", "more than %d new entries: earlier entries may be missing", api.MaxHistoryLimit)
		}
		if !started && len(entries) == query.Limit {
			cursor.oldest = entries[0].Time
		}
		entries = cursor.unseen(entries)
		if len(entries) > 0 || !started {
			err = write(stream.out, format, entries, func(w io.Writer) error {
				return table.History(w, entries, name == "", time.Local)
			})
		}
		started, query.Limit = true, api.MaxHistoryLimit
		if from := cursor.from(); from.After(query.From) {
			query.From = from
		}
		return err
	})
}
