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

// listing is how autoscalers are listed.
type listing struct {
	format *outputFormat
	table  show.Pieces
	// order is one of show.Orders; empty is that of the answer.
	order string
}

func newGetCommand(stream streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:        "get [NAME]...",
		SuggestFor: []string{"list", "ls", "status", "ps"},
		Short:      "List autoscalers",
		Long: `List all autoscalers, or those named, as "kubectl get hpa" does. What is no name is
taken for a target, as REFERENCE shows it. A last column PROBLEM appears when an
autoscaler is failing or is not being evaluated; -o wide always has it, with the last
evaluation and the conditions that bear on the count.

With --watch a line follows for each autoscaler whose line has changed, until it is
interrupted.`,
		Example: "  hpad get\n  hpad get checkout -o wide\n  hpad get prod/checkout/api\n  hpad get --sort-by problem\n  hpad get -o json",
		Args:    cobra.ArbitraryArgs,
	}
	var list listing
	var watching bool
	flags := cmd.Flags()
	flags.BoolVarP(&watching, "watch", "w", false, "go on with each autoscaler that changes")
	flags.BoolVar(&list.table.Headless, "no-headers", false, "leave out the line above the table")
	flags.Var(choice{&list.order, show.Orders, "COLUMN"}, "sort-by", "the column to sort by: "+strings.Join(show.Orders, ", "))
	completeFlag(cmd, "sort-by", show.Orders...)
	list.format = addOutputFlag(cmd, outputName)
	client := addConnectFlags(cmd)
	cmd.ValidArgsFunction = completeListed(client)
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

// named writes autoscalers that were asked for by name.
func (l *listing) named(stream streams, views []api.Autoscaler, one bool) error {
	now := time.Now()
	l.sort(views, now)
	var value any = views
	if one {
		value = views[0]
	}
	return l.write(stream.out, value, func(w io.Writer) error {
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

// watch writes autoscalers, and then each that looks otherwise than before.
func (l *listing) watch(cmd *cobra.Command, stream streams, client *api.Client, names []string) error {
	if err := l.format.refuseWhole("--watch"); err != nil {
		return wrongUse(err, helpHint(cmd))
	}
	begun, looks := false, map[string]string{}
	return follow(cmd.Context(), stream.err, func() error {
		changed, now := []api.Autoscaler{}, time.Now()
		there := map[string]bool{}
		for view, err := range watched(cmd.Context(), client, names) {
			if err != nil {
				return err
			}
			there[view.Name] = true
			if look := show.Look(view); looks[view.Name] != look {
				looks[view.Name] = look
				changed = append(changed, view)
			}
		}
		maps.DeleteFunc(looks, func(name, _ string) bool { return !there[name] })
		if begun && len(changed) == 0 {
			return nil
		}
		begun = true
		l.sort(changed, now)
		return l.write(stream.out, changed, func(w io.Writer) error {
			if *l.format == outputName {
				return writeNames(w, slices.Values(changed))
			}
			return l.table.Autoscalers(w, slices.Values(changed), *l.format == outputWide, now)
		})
	})
}

// watched yields the autoscalers named, or all; each name has to be there.
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

// all writes all autoscalers as they come: a table once all are there, and nothing
// of it where some are not.
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
	written := l.write(stream.out, nil, func(w io.Writer) error {
		var table bytes.Buffer
		err := l.table.Whole(&table, views, *l.format == outputWide, now)
		if failed != nil {
			return failed
		}
		warned = errors.Join(warnOfReload(ctx, client, stream.err), warnOfLabels(ctx, client, stream.err))
		if count == 0 {
			_, err = io.WriteString(stream.err, "No autoscalers are configured.\n")
			return err
		}
		_, _ = table.WriteTo(w)
		return err
	})
	return errors.Join(written, warned)
}

// allRaw writes all autoscalers for programs: as they come, or, where they are sorted or
// their names alone are wanted, once all are there.
func (l *listing) allRaw(ctx context.Context, client *api.Client, stream streams) error {
	if l.order == "" && *l.format != outputName {
		return writeList(stream.out, *l.format, client.EachAutoscalerJSON(ctx))
	}
	views, err := client.Autoscalers(ctx)
	if err != nil {
		return err
	}
	l.sort(views, time.Now())
	return write(stream.out, *l.format, views, func(w io.Writer) error { return writeNames(w, slices.Values(views)) })
}

// warnOfReload warns of a configuration that was refused, so that another one is in force
// than in the files.
func warnOfReload(ctx context.Context, client *api.Client, to io.Writer) error {
	health, err := client.Health(ctx)
	if err == nil && health.RefusedReload != "" {
		notice(to, "warning", "the last reload was refused, and the configuration of before is in force: %s", health.RefusedReload)
	}
	return err
}

// warnOfLabels warns of targets that nothing scales because their labels have a
// mistake: they are in no row.
func warnOfLabels(ctx context.Context, client *api.Client, to io.Writer) error {
	discovered, err := client.Discovered(ctx)
	if err != nil {
		return err
	}
	for _, target := range discovered {
		if target.State == api.DiscoveredMistaken && target.Autoscaler == "" {
			notice(to, "warning", "%s is not scaled, its labels are invalid: %s", target.Reference, target.Problem)
		}
	}
	return nil
}

// fetch returns those named that exist together with the errors of those that do not.
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

// find returns the autoscaler of a name, or else the one whose target that is, and the name
// by which the daemon has it.
func find(ctx context.Context, client *api.Client, name string) (api.Autoscaler, string, error) {
	view, err := client.Autoscaler(ctx, name)
	if !errors.Is(err, api.ErrNotFound) || !strings.Contains(name, "/") {
		return view, name, err
	}
	for listed, failed := range client.Cleaning(nil).EachBriefly(ctx) {
		if failed != nil {
			return api.Autoscaler{}, name, failed
		}
		if listed.Reference == name || show.Clean(listed.Reference) == name {
			view, err := client.Autoscaler(ctx, listed.Name)
			return view, listed.Name, err
		}
	}
	return view, name, err
}
