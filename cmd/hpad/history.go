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
	var asked historyFlags
	cmd := &cobra.Command{
		Use:        "history [NAME]",
		SuggestFor: []string{"events", "log", "logs"},
		Short:      "List what was decided before",
		Long: `List the decisions of an autoscaler, or of all, that changed something or the
reason of a condition, oldest first, each with the count before and after and why.
They are kept for 7 days, also across restarts and once the autoscaler is deleted.
Changes of its configuration, by a reload or a restart, are among them.

Times are local, as TZ says. With --changes only those decisions are listed that
wrote a count, or follow a change by somebody else: of the count, of the bounds,
or a pause that began or ended; and changes of the configuration.

With --follow what is recorded from then on follows, until it is interrupted.

With --verify each decision is made again from what it was made of, and compared
with the one that was recorded. The exit code is 1 where one comes out otherwise, or
is damaged; those of other versions of hpad cannot be verified and are no failure.

"hpad explain NAME --at TIME" shows every step of one of them.`,
		Example: "  hpad history\n  hpad history checkout --since 2h -n 100\n  hpad history --since yesterday --until today --changes\n  hpad history --verify",
		Args:    cobra.MaximumNArgs(1),
	}
	format := addOutputFlag(cmd)
	client := addConnectFlags(cmd)
	asked.add(cmd)
	cmd.ValidArgsFunction = completeNames(client, 1)
	cmd.RunE = func(cmd *cobra.Command, names []string) error {
		query, err := asked.query(cmd)
		if err != nil {
			return err
		}
		name := strings.Join(names, "")
		switch {
		case asked.verify:
			return verifyHistory(cmd, stream, client(), *format, name, query)
		case asked.following:
			return followHistory(cmd, stream, client(), *format, name, query, &asked.table)
		}
		entries, err := client().HistoryOf(cmd.Context(), name, query)
		if err != nil {
			return suggestName(cmd.Context(), client(), name, err)
		}
		return writePage(stream.out, *format, entries, func(w io.Writer) error {
			if len(entries) == 0 {
				_, err := io.WriteString(stream.err, "Nothing is recorded.\n")
				return err
			}
			return asked.table.History(w, entries, name == "", time.Local)
		})
	}
	return cmd
}

// historyFlags are what "hpad history" is asked for.
type historyFlags struct {
	since, until               string
	changes, following, verify bool
	table                      show.Pieces
	limit                      int
}

func (f *historyFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.since, "since", "", "only what came after this `time`: "+instantForms)
	flags.StringVar(&f.until, "until", "", "only what came before this `time`")
	flags.BoolVar(&f.changes, "changes", false, "only what changed the count, its bounds, a pause or the configuration")
	flags.BoolVarP(&f.following, "follow", "f", false, "go on with what is recorded from now on")
	flags.BoolVar(&f.verify, "verify", false, "make every decision again, and compare")
	flags.BoolVar(&f.table.Headless, "no-headers", false, "leave out the line above the table")
	flags.IntVarP(&f.limit, "limit", "n", 20, fmt.Sprintf("the newest so many, at most %d", api.MaxHistoryLimit))
}

// query returns what is asked of the daemon.
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
			return query, wrongUse(fmt.Errorf("--verify takes every decision, and --%s some of them", flag), helpHint(cmd))
		}
	}
	return query, nil
}

// followHistory writes the entries that a query asks for, and then those that come.
func followHistory(cmd *cobra.Command, stream streams, client *api.Client, format outputFormat, name string, query api.HistoryQuery, table *show.Pieces) error {
	err := format.refuseWhole("--follow")
	if !query.To.IsZero() {
		err = errors.New("--follow goes on, and --until ends it")
	}
	if err != nil {
		return wrongUse(err, helpHint(cmd))
	}
	var shown recordedAfter
	begun := false
	return follow(cmd.Context(), stream.err, func() error {
		entries, err := client.HistoryOf(cmd.Context(), name, query)
		if err != nil {
			return suggestName(cmd.Context(), client, name, err)
		}
		if begun && len(entries) == api.MaxHistoryLimit {
			notice(stream.err, "warning", "more than %d decisions at once: earlier ones may be left out", api.MaxHistoryLimit)
		}
		if !begun && len(entries) == query.Limit {
			shown.oldest = entries[0].Time // those before it were not asked for
		}
		entries = shown.unseen(entries)
		if len(entries) > 0 || !begun {
			err = writePage(stream.out, format, entries, func(w io.Writer) error {
				return table.History(w, entries, name == "", time.Local)
			})
		}
		begun, query.Limit = true, api.MaxHistoryLimit
		if from := shown.from(); from.After(query.From) {
			query.From = from
		}
		return err
	})
}
