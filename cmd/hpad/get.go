package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hpad/hpad/cmd/hpad/show"
	"github.com/hpad/hpad/daemon/api"
)

// listing contains the options of "hpad get".
type listing struct {
	format *outputFormat
	table  show.Table
	// order is one of show.Orders, or empty for the order in which the daemon returns autoscalers.
	order string
}

func newGetCommand(stream streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:        "get [NAME]...",
		SuggestFor: []string{"list", "ls", "status", "ps"},
		Short:      "List autoscalers",
		Long: `List all autoscalers, or those with the given names, like "kubectl get hpa". NAME may also
be a target, as in the column REFERENCE. The column PROBLEM appears if an autoscaler has a
problem; -o wide always shows it, together with the last evaluation and the conditions
that affect the count.

With --watch the command prints each autoscaler again when it changes, until Ctrl-C.`,
		Example: "  hpad get\n  hpad get checkout -o wide\n  hpad get prod/checkout/api\n  hpad get --sort-by problem\n  hpad get -o json",
		Args:    cobra.ArbitraryArgs,
	}
	var list listing
	var watching bool
	flags := cmd.Flags()
	flags.BoolVarP(&watching, "watch", "w", false, "print each autoscaler again when it changes")
	flags.BoolVar(&list.table.Headless, "no-headers", false, "omit the header of the table")
	flags.Var(choice{&list.order, show.Orders, "COLUMN"}, "sort-by", "`column` to sort by: "+strings.Join(show.Orders, ", "))
	completeFlag(cmd, "sort-by", show.Orders...)
	list.format = addOutputFlag(cmd, outputName)
	client := addConnectFlags(cmd)
	cmd.ValidArgsFunction = completeNames(client, 0)
	cmd.RunE = func(cmd *cobra.Command, names []string) error {
		if watching {
			return list.watch(cmd, stream, client(), names)
		}
		if len(names) == 0 {
			return list.all(cmd.Context(), client(), stream)
		}
		views, missing := fetch(cmd.Context(), client(), names)
		if len(views) == 0 && missing != nil {
			return missing
		}
		return errors.Join(list.named(stream, views, len(names) == 1), missing)
	}
	return cmd
}

func (l *listing) named(stream streams, views []api.Autoscaler, one bool) error {
	now := time.Now()
	l.sort(views, now)
	var value any = views
	if one {
		value = views[0]
	}
	return write(stream.out, *l.format, value, func(w io.Writer) error {
		if *l.format == outputName {
			return writeNames(w, slices.Values(views))
		}
		return l.table.Whole(w, slices.Values(views), *l.format == outputWide, now)
	})
}

func (l *listing) sort(views []api.Autoscaler, now time.Time) {
	if l.order != "" {
		show.Sort(views, l.order, now)
	}
}

func writeNames(w io.Writer, views iter.Seq[api.Autoscaler]) error {
	for view := range views {
		if _, err := io.WriteString(w, view.Name+"\n"); err != nil {
			return err
		}
	}
	return nil
}

// watch writes all autoscalers once, and then each autoscaler that changes.
func (l *listing) watch(cmd *cobra.Command, stream streams, client *api.Client, names []string) error {
	if err := l.format.rejectJSON("--watch"); err != nil {
		return wrongUse(err, helpHint(cmd))
	}
	started, rows := false, map[string]string{}
	return follow(cmd.Context(), stream.err, func() error {
		changed, now := []api.Autoscaler{}, time.Now()
		present := map[string]bool{}
		for view, err := range watched(cmd.Context(), client, names) {
			if err != nil {
				return err
			}
			present[view.Name] = true
			if row := show.Row(view); rows[view.Name] != row {
				rows[view.Name] = row
				changed = append(changed, view)
			}
		}
		maps.DeleteFunc(rows, func(name, _ string) bool { return !present[name] })
		if started && len(changed) == 0 {
			return nil
		}
		started = true
		l.sort(changed, now)
		return write(stream.out, *l.format, changed, func(w io.Writer) error {
			if *l.format == outputName {
				return writeNames(w, slices.Values(changed))
			}
			return l.table.Autoscalers(w, slices.Values(changed), *l.format == outputWide, now)
		})
	})
}

// watched yields all autoscalers, or only the named ones. An unknown name is an error.
func watched(ctx context.Context, client *api.Client, names []string) iter.Seq2[api.Autoscaler, error] {
	if len(names) == 0 {
		return client.EachBriefly(ctx)
	}
	return func(yield func(api.Autoscaler, error) bool) {
		for _, name := range names {
			view, _, err := find(ctx, client, name)
			if !yield(view, suggestName(ctx, client, name, err)) {
				return
			}
		}
	}
}

// all writes all autoscalers. After an error, it prints no table.
func (l *listing) all(ctx context.Context, client *api.Client, stream streams) error {
	if *l.format != outputTable && *l.format != outputWide {
		return l.allRaw(ctx, client, stream)
	}
	count := 0
	var failed error
	views := func(yield func(api.Autoscaler) bool) {
		for view, err := range client.EachBriefly(ctx) {
			if failed = err; err != nil || !yield(view) {
				return
			}
			count++
		}
	}
	now := time.Now()
	if l.order != "" {
		sorted := slices.Collect(views)
		l.sort(sorted, now)
		views = slices.Values(sorted)
	}
	var warned error
	written := write(stream.out, *l.format, nil, func(w io.Writer) error {
		var table bytes.Buffer
		err := l.table.Whole(&table, views, *l.format == outputWide, now)
		if failed != nil {
			return failed
		}
		health, failed := client.Health(ctx)
		if failed == nil && health.Unwritten != "" {
			notice(stream.err, "warning", "the state cannot be written, so a restart may lose changes: %s", health.Unwritten)
		}
		if failed == nil && health.RefusedReload != "" {
			notice(stream.err, "warning", "the last reload was rejected, and the previous configuration is active: %s", health.RefusedReload)
		}
		warned = errors.Join(failed, warnOfLabels(ctx, client, stream.err))
		switch {
		case count == 0 && failed == nil && health.LastTick.IsZero():
			return errors.New("hpad is starting and has not loaded its autoscalers yet: try again in a few seconds")
		case count == 0:
			_, err = io.WriteString(stream.err, "No autoscalers are configured.\n")
			return err
		}
		_, _ = table.WriteTo(w)
		return err
	})
	return errors.Join(written, warned)
}

// allRaw writes all autoscalers in a machine-readable format.
func (l *listing) allRaw(ctx context.Context, client *api.Client, stream streams) error {
	views, err := client.Autoscalers(ctx)
	if err != nil {
		return err
	}
	l.sort(views, time.Now())
	return write(stream.out, *l.format, views, func(w io.Writer) error { return writeNames(w, slices.Values(views)) })
}

// warnOfLabels warns about targets that have no autoscaler because their labels are invalid.
func warnOfLabels(ctx context.Context, client *api.Client, to io.Writer) error {
	discovered, err := api.Get[[]api.Discovered](ctx, client, api.Path("discovery"), nil)
	if err != nil {
		return err
	}
	for _, target := range discovered {
		if target.State == api.DiscoveredInvalid && target.Autoscaler == "" {
			notice(to, "warning", "%s is not scaled, its labels are invalid: %s", target.Reference, target.Problem)
		}
	}
	return nil
}

// fetch returns the named autoscalers that exist, and an error for each name that does not exist.
func fetch(ctx context.Context, client *api.Client, names []string) ([]api.Autoscaler, error) {
	var views []api.Autoscaler
	var missing []error
	for _, name := range names {
		view, _, err := find(ctx, client, name)
		switch {
		case err == nil:
			views = append(views, view)
		case !errors.Is(err, api.ErrNotFound):
			return nil, err
		default:
			missing = append(missing, suggestName(ctx, client, name, err))
		}
	}
	return views, errors.Join(missing...)
}

// find looks up an autoscaler by its name or by the reference of its target. It also returns the
// name.
func find(ctx context.Context, client *api.Client, name string) (api.Autoscaler, string, error) {
	view, err := api.Get[api.Autoscaler](ctx, client, api.Path("autoscalers", name), nil)
	if !errors.Is(err, api.ErrNotFound) || !strings.Contains(name, "/") {
		return view, name, err
	}
	for listed, failed := range client.WithCleaning(nil).EachBriefly(ctx) {
		if failed != nil {
			return api.Autoscaler{}, name, failed
		}
		if listed.Reference == name || show.Clean(listed.Reference) == name {
			view, err := api.Get[api.Autoscaler](ctx, client, api.Path("autoscalers", listed.Name), nil)
			return view, listed.Name, err
		}
	}
	return view, name, err
}
