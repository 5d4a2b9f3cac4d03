package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/hpad/hpad/cmd/hpad/show"
	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/explain"
)

func newGetCommand(stream streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "get [NAME]...",
		Short: "List autoscalers",
		Long: `List all autoscalers, or those named, as "kubectl get hpa" does. A last column
PROBLEM appears when an autoscaler is failing or is not being evaluated; -o wide
always has it, with the last evaluation and the conditions that bear on the count.

With --watch a line follows for each autoscaler whose line has changed, until it is
interrupted.`,
		Example: "  hpad get\n  hpad get checkout -o wide\n  hpad get -o json",
		Args:    cobra.ArbitraryArgs,
	}
	var watching bool
	cmd.Flags().BoolVarP(&watching, "watch", "w", false, "go on with each autoscaler that changes")
	format := addOutputFlag(cmd)
	client := addConnectFlags(cmd)
	cmd.ValidArgsFunction = completeNames(client, 0)
	cmd.RunE = func(cmd *cobra.Command, names []string) error {
		if watching {
			return watch(cmd, stream, client(), *format, names)
		}
		if len(names) == 0 {
			return getAll(cmd.Context(), client(), *format, stream)
		}
		views, missing := fetch(cmd.Context(), client(), names)
		if len(views) == 0 && missing != nil {
			return missing
		}
		var value any = views
		if len(names) == 1 {
			value = views[0]
		}
		written := write(stream.out, *format, value, func(w io.Writer) error {
			return show.Autoscalers(w, slices.Values(views), *format == outputWide, time.Now())
		})
		return errors.Join(written, missing)
	}
	return cmd
}

// watch writes autoscalers, and then each that looks otherwise than before.
func watch(cmd *cobra.Command, stream streams, client *api.Client, format outputFormat, names []string) error {
	if err := format.refuseWhole("--watch"); err != nil {
		return wrongUse(err, helpHint(cmd))
	}
	var table show.Pieces
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
		return write(stream.out, format, changed, func(w io.Writer) error {
			return table.Autoscalers(w, slices.Values(changed), format == outputWide, now)
		})
	})
}

// watched yields the autoscalers named, or all; each name has to be there.
func watched(ctx context.Context, client *api.Client, names []string) iter.Seq2[api.Autoscaler, error] {
	if len(names) == 0 {
		return client.EachAutoscaler(ctx)
	}
	return func(yield func(api.Autoscaler, error) bool) {
		for _, name := range names {
			view, err := client.Autoscaler(ctx, name)
			if !yield(view, suggestName(ctx, client, name, err)) {
				return
			}
		}
	}
}

// getAll writes all autoscalers as they come: a table once all are there, and nothing
// of it where some are not.
func getAll(ctx context.Context, client *api.Client, format outputFormat, stream streams) error {
	if format == outputJSON || format == outputYAML || format == outputJSONL {
		return writeList(stream.out, format, client.EachAutoscalerJSON(ctx))
	}
	count := 0
	var failed error
	views := func(yield func(api.Autoscaler) bool) {
		for view, err := range client.EachAutoscaler(ctx) {
			if failed = err; err != nil || !yield(view) {
				return
			}
			count++
		}
	}
	var warned error
	written := write(stream.out, format, nil, func(w io.Writer) error {
		var table bytes.Buffer
		err := show.Autoscalers(&table, views, format == outputWide, time.Now())
		if failed != nil {
			return failed
		}
		warned = warnOfLabels(ctx, client, stream.err)
		if count == 0 {
			_, err = io.WriteString(stream.err, "No autoscalers are configured.\n")
			return err
		}
		_, _ = table.WriteTo(w)
		return err
	})
	return errors.Join(written, warned)
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
			_, _ = fmt.Fprintf(to, "hpad: warning: %s is not scaled, its labels have a mistake: %s\n", target.Reference, explain.OneLine(target.Problem))
		}
	}
	return nil
}

// fetch returns those named that exist together with the errors of those that do not.
func fetch(ctx context.Context, client *api.Client, names []string) ([]api.Autoscaler, error) {
	var views []api.Autoscaler
	var missing []error
	for _, name := range names {
		view, err := client.Autoscaler(ctx, name)
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
